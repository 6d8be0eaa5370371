"""The README's block with fewer training days than weekdays: every test row has a weekday that training lacks."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.project import copy_project, run

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
DAY, MONDAY = 86_400, 1_704_067_200  # 1 January 2024
DAYS, USERS, ITEMS, SHOWN = 7, 2_000, 60, 24_000  # five days train: Monday to Friday


def write_shop(folder: Path) -> None:
    """A shop with a CTR of about 7 %: customers prefer a category, and items at the top get more clicks."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    category, liked = np.arange(ITEMS) % 6, rng.integers(0, 6, USERS)
    user, item = rng.integers(0, USERS, SHOWN), rng.integers(0, ITEMS, SHOWN)
    time = MONDAY + rng.integers(0, DAYS * DAY, SHOWN)
    top = rng.random(SHOWN) < 0.5
    rate = np.where(category[item] == liked[user], 0.2, 0.01) + 0.06 * top
    shown = {"user": user, "item": item, "time": time, "label": (rng.random(SHOWN) < rate).astype(int)}
    pd.DataFrame({**shown, "placement": np.where(top, "top", "side")}).to_csv(
        folder / "impressions.csv", index=False
    )
    visitor = np.repeat(np.arange(USERS), 6)
    visited = rng.integers(0, ITEMS // 6, len(visitor)) * 6 + liked[visitor]
    visits = {"user": visitor, "item": visited, "time": MONDAY - rng.integers(1, 9 * DAY, len(visitor))}
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
        text for text in re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL) if "my_shop:" in text
    )
    assert "weekday" in block
    (project / "conf/base/parameters/my_shop.yml").write_text(block, encoding="utf-8")
    models = "--params=datasets.my_shop.rows=lr base din,training.seeds=1,training.options.epochs=4,training.options.patience=4"
    done = run(project, "--pipelines=my_shop", models)
    assert done.returncode == 0, done.stdout
    return project / "data/smoke", done.stdout


def test_the_run_warns_of_weekdays_that_no_training_day_has(trained):
    folder, output = trained
    said = " ".join(output.split())
    assert "features.context: weekday: every test row has a value that no training day has (7)" in said
    assert "features.context: weekday: every validation row has a value that no training day has (6)" in said
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
    constant = label.mean()
    entropy = -(constant * np.log(constant) + (1 - constant) * np.log(1 - constant))
    loss = -np.where(label == 1, np.log(predicted), np.log(1 - predicted)).mean()
    assert loss < entropy
