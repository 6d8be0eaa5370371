"""A user's own log: four Parquet tables and a few lines of configuration."""

import numpy as np
import pandas as pd
from support.forked import run
from support.project import copy_project

from deep_interest.logs.standardised import decode

DAY = 86_400


def write_own_log(folder, *, users: int = 80, items: int = 50, days: int = 6):
    """Write a log with string ids, a user without a profile, a user without behaviours, and times in seconds."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    item_ids = np.array([f"sku-{k}" for k in range(items)])
    kinds = np.arange(items) % 5
    preferred = rng.integers(0, 5, users)
    user = np.repeat(np.arange(users), 12)
    item = np.where(
        rng.random(len(user)) < 0.8,
        rng.integers(0, items // 5, len(user)) * 5 + preferred[user],
        rng.integers(0, items, len(user)),
    )
    time = rng.integers(0, days * DAY, len(user))
    ids = np.array([f"visitor {k}" for k in range(users)])
    behaviors = pd.DataFrame({"user": ids[user], "item": item_ids[item], "time": time})
    behaviors[behaviors["user"] != "visitor 7"].to_parquet(folder / "behaviors.parquet")
    impression_item = rng.integers(0, items, len(user))
    label = (rng.random(len(user)) < np.where(kinds[impression_item] == preferred[user], 0.7, 0.1)).astype(
        np.int8
    )
    impressions = pd.DataFrame(
        {
            "user": ids[user],
            "item": item_ids[impression_item],
            "time": time[::-1],
            "label": label,
            "placement": user % 3,
        }
    )
    impressions.to_parquet(folder / "impressions.parquet")
    pd.DataFrame(
        {"item": item_ids, "category": kinds, "brand": [f"b{k % 7}" for k in range(items)]}
    ).to_parquet(folder / "items.parquet")
    pd.DataFrame({"user": ids[:-1], "plan": ["free", "paid"] * (users // 2 - 1) + ["free"]}).to_parquet(
        folder / "users.parquet"
    )


def own_block(project, features: str) -> None:
    """Write the feature columns into the dataset's block."""
    file = project / "conf/base/parameters/datasets.yml"
    head, rest = file.read_text().split("title: Own logs")
    old_block = rest.split("kuairand:")[0]
    source = "source: {<<: *canonical, folder: own}"
    block = f"\n    {source}\n    protocol: {{name: by_day}}\n    features: {features}\n\n  "
    file.write_text(head + "title: Own logs" + rest.replace(old_block, block, 1))


def test_own_tables_give_results(tmp_path):
    project = copy_project(tmp_path / "project")
    write_own_log(tmp_path / "raw/own")
    own_block(
        project, "{item: [item_id, category, brand], profile: [plan], context: [placement], neighbours: 20}"
    )
    completed = run(project, "--pipelines=own.din", raw=tmp_path / "raw")
    assert completed.returncode == 0, completed.stdout
    results = pd.read_csv(project / "data/smoke/08_reporting/own/din/results.csv")
    assert "din" in set(results["model"])
    samples = pd.read_parquet(project / "data/smoke/05_model_input/own/samples.parquet")
    assert len(samples) == 80 * 12
    assert "placement" in samples
    assert decode(samples["neighbours"].to_numpy())[samples["split"] == "train"].std() > 0.9


def test_standardised_features_of_own_tables_give_results(tmp_path):
    project = copy_project(tmp_path / "project")
    folder = tmp_path / "raw/own"
    write_own_log(folder)
    rng = np.random.default_rng(0)
    numbers = {"items": "price", "behaviors": "dwell", "users": "age", "impressions": "bid"}
    for table, name in numbers.items():
        frame = pd.read_parquet(folder / f"{table}.parquet")
        values = np.where(rng.random(len(frame)) < 0.1, np.nan, rng.lognormal(size=len(frame)))
        frame.assign(**{name: values}).to_parquet(folder / f"{table}.parquet")
    features = (
        "{item: [item_id, category, price], behavior: [item_id, category, price, dwell, gap], profile: [plan, age], "
        "context: [placement, bid], standardised: [price, dwell, age, bid], "
        "sequences: {again: {behavior: [item_id, price, dwell], max_len: 5}}}"
    )
    own_block(project, features)
    for pipeline in ("own.din", "own.boosted"):
        completed = run(project, f"--pipelines={pipeline}", raw=tmp_path / "raw")
        assert completed.returncode == 0, completed.stdout
    samples = pd.read_parquet(project / "data/smoke/05_model_input/own/samples.parquet")
    z = decode(samples["bid"].to_numpy())[samples["bid"] > 0]
    train = z[(samples["split"] == "train")[samples["bid"] > 0]]
    assert samples["bid"].dtype == np.int32
    assert (samples["bid"] == 0).mean() > 0.05
    assert abs(train.mean()) < 0.05
    assert 0.7 < train.std() < 1.01  # values beyond 8 standard deviations are clipped

    frame = pd.read_parquet(folder / "items.parquet")
    frame.assign(price=frame["price"].astype(str).mask(frame.index == 3, "cheap")).to_parquet(
        folder / "items.parquet"
    )
    refused = run(project, "--pipelines=samples.own", raw=tmp_path / "raw")
    assert refused.returncode != 0
    assert "Traceback" not in refused.stdout
    assert (
        "items.parquet, column price: found 1 value(s) that are not numbers, for example 'cheap'"
        in refused.stdout
    )


def test_a_missing_feature_column_is_an_error_with_its_name(tmp_path):
    project = copy_project(tmp_path / "project")
    write_own_log(tmp_path / "raw/own")
    own_block(project, "{item: [item_id, colour]}")
    completed = run(project, "--pipelines=samples.own", raw=tmp_path / "raw")
    assert completed.returncode != 0
    expected = "error: items: feature column(s) colour not found; the columns are item, category, brand"
    assert completed.stdout.splitlines()[-1].startswith(expected)
