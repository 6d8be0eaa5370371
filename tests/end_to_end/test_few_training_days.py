"""The README's block with fewer training days than weekdays: every test weekday is missing from training."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.forked import run
from support.project import copy_project

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
DAY, MONDAY = 86_400, 1_704_067_200  # 1 January 2024
DAYS, USERS, ITEMS, IMPRESSIONS = 7, 2_000, 60, 24_000  # five training days: Monday to Friday


def write_shop(folder: Path) -> None:
    """Write a log with a CTR of about 7%: users prefer a category, and items at the top get more clicks."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    category, preferred = np.arange(ITEMS) % 6, rng.integers(0, 6, USERS)
    user, item = rng.integers(0, USERS, IMPRESSIONS), rng.integers(0, ITEMS, IMPRESSIONS)
    time = MONDAY + rng.integers(0, DAYS * DAY, IMPRESSIONS)
    top = rng.random(IMPRESSIONS) < 0.5
    rate = np.where(category[item] == preferred[user], 0.2, 0.01) + 0.06 * top
    impressions = {
        "user": user,
        "item": item,
        "time": time,
        "label": (rng.random(IMPRESSIONS) < rate).astype(int),
    }
    pd.DataFrame({**impressions, "placement": np.where(top, "top", "side")}).to_csv(
        folder / "impressions.csv", index=False
    )
    visit_user = np.repeat(np.arange(USERS), 6)
    visit_item = rng.integers(0, ITEMS // 6, len(visit_user)) * 6 + preferred[visit_user]
    visits = {
        "user": visit_user,
        "item": visit_item,
        "time": MONDAY - rng.integers(1, 9 * DAY, len(visit_user)),
    }
    pd.DataFrame(visits).to_csv(folder / "behaviors.csv", index=False)
    items = {"item": np.arange(ITEMS), "category": category, "brand": np.arange(ITEMS) % 7}
    pd.DataFrame(items).to_csv(folder / "items.csv", index=False)
    users = {
        "user": np.arange(USERS),
        "gender": rng.choice(["f", "m"], USERS),
        "age_level": rng.integers(1, 6, USERS),
    }
    pd.DataFrame(users).to_csv(folder / "users.csv", index=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    project = copy_project(tmp_path_factory.mktemp("few_days") / "project")
    write_shop(project / "data/01_raw/my_shop")
    (block,) = (
        block for block in re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL) if "my_shop:" in block
    )
    assert "weekday" in block
    (project / "conf/base/parameters/my_shop.yml").write_text(block, encoding="utf-8")
    models = "--params=datasets.my_shop.models=lr base din,training.seeds=1,training.options.epochs=4,training.options.patience=4"
    done = run(project, "--pipelines=my_shop", models)
    assert done.returncode == 0, done.stdout
    return project / "data/smoke", done.stdout


def test_the_run_warns_about_weekdays_missing_from_training(trained):
    folder, output = trained
    text = " ".join(output.split())
    assert (
        "features.context: weekday: every test row has a value that does not occur on any training day (7)"
        in text
    )
    assert (
        "features.context: weekday: every validation row has a value that does not occur on any training day (6)"
        in text
    )
    summary = pd.read_csv(folder / "08_reporting/my_shop/samples_summary.csv").set_index("split")
    assert list(summary.loc[["train", "validation", "test"], "unknown_weekday"]) == [0, 1, 1]
    assert (summary.loc["test", ["unknown_hour", "unknown_placement", "unknown_item_id"]] == 0).all()


@pytest.mark.parametrize("model", ["lr", "base", "din"])
def test_predictions_are_calibrated_and_better_than_a_constant(trained, model):
    folder, _ = trained
    samples = pd.read_parquet(folder / "05_model_input/my_shop/samples.parquet")
    label = samples.loc[samples["split"] == "test", "label"].to_numpy()
    predicted = pd.read_parquet(folder / f"07_model_output/my_shop/{model}/predictions.parquet")[
        "seed_1"
    ].to_numpy()
    assert predicted.mean() / label.mean() == pytest.approx(1, abs=0.15)
    ctr = label.mean()
    entropy = -(ctr * np.log(ctr) + (1 - ctr) * np.log(1 - ctr))
    loss = -np.where(label == 1, np.log(predicted), np.log(1 - predicted)).mean()
    assert loss < entropy
