"""Groups of test samples: which samples they have, and the values of the functions for whole test sets."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.evaluation import chance_interval, difference_interval, variance_over_seeds
from deep_interest.evaluation.comparison import ModelRuns
from deep_interest.evaluation.group_table import group_table, groups_of
from deep_interest.evaluation.metrics import per_user_auc
from deep_interest.evaluation.significance import mean_over_seeds
from deep_interest.pipelines.report.nodes import sizes_of_groups

DAY = 86_400
USERS, LABELS = np.repeat(np.arange(60), 6), np.tile([1, 0, 0], 120)
TEST = pd.DataFrame({"user": USERS, "label": LABELS})


def runs(name: str, strength: float, *, seeds: int = 2, deterministic: bool = False) -> ModelRuns:
    rng = np.random.default_rng(len(name))
    scores = 1 / (1 + np.exp(-(strength * LABELS + rng.standard_normal((seeds, len(LABELS))))))
    return ModelRuns(
        name, tuple(range(seeds)), scores, np.zeros(seeds), np.zeros(seeds), deterministic=deterministic
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 0, 1, 2, 3, 4], [("0", 2), ("1 to 2", 2), ("3", 1), ("4", 1)]),
        ([5, 5, 5], [("5", 3)]),
        ([0, 0], [("0", 2)]),
        (range(1, 101), [("1 to 25", 25), ("26 to 50", 25), ("51 to 75", 25), ("76 to 100", 25)]),
    ],
)
def test_groups_are_zero_and_quarters_of_the_others(values, expected):
    assert [(name, int(chosen.sum())) for name, chosen in groups_of(np.array(values))] == expected


@pytest.mark.parametrize("values", [np.arange(1000) % 7, np.arange(1000) ** 2, np.ones(10, int)])
def test_every_sample_is_in_one_group(values):
    assert (sum(chosen.astype(int) for _, chosen in groups_of(values)) == 1).all()


def test_values_are_those_of_the_samples_of_the_group():
    models = {
        "base": runs("BaseModel", 0.5),
        "item_rate": runs("Item rate", 0.2, seeds=1, deterministic=True),
        "din": runs("DIN", 1.0, seeds=1),
    }
    sizes = {"length": np.where(USERS < 40, 3, 0)}
    table = group_table(TEST, models, sizes).set_index(["group", "model"])
    chosen = USERS < 40
    per_seed = {
        key: [per_user_auc(USERS[chosen], LABELS[chosen], p[chosen]) for p in of.probabilities]
        for key, of in models.items()
    }
    seeds = {key: [variance_over_seeds(per_seed[key])] for key in ("base", "item_rate")} | {"din": []}
    for key in models:
        row, mean = table.loc[("3", key)], mean_over_seeds(per_seed[key])
        interval = chance_interval(mean, seeds=seeds[key])
        assert (row["samples"], row["users"]) == (240, 40)
        assert row[["gauc", "gauc_low", "gauc_high"]].tolist() == pytest.approx(
            [0.5 + value for value in (interval.difference, interval.low, interval.high)]
        )
        if key != "base":
            found = difference_interval(
                mean, mean_over_seeds(per_seed["base"]), seeds=[*seeds[key], *seeds["base"]]
            )
            assert row[["difference", "difference_low", "difference_high"]].tolist() == pytest.approx(
                [found.difference, found.low, found.high]
            )
    assert table.loc[("3", "base"), "difference":].isna().all()


def test_a_group_with_few_users_has_no_values():
    table = group_table(TEST, {"base": runs("BaseModel", 0.5)}, {"length": np.where(USERS < 9, 0, 2)})
    assert table["users"].tolist() == [9, 51]
    assert table["gauc"].isna().tolist() == [True, False]


def test_samples_are_grouped_by_history_and_by_frequency_and_age_in_training():
    samples = pd.DataFrame(
        {
            "user": [1, 1, 2, 1, 3], "item": [5, 5, 6, 5, 7], "time": [3 * DAY + 50, 4 * DAY, 4 * DAY, 9 * DAY + 49, 9 * DAY], "history_end": [0, 1, 2, 3, 4],
            "split": ["train", "train", "validation", "test", "test"],
        }
    )  # fmt: skip
    assert {name: values.tolist() for name, values in sizes_of_groups(samples, dated=True).items()} == {
        "length of the history": [3, 4],
        "training samples of the user": [2, 0],
        "training samples of the item": [2, 0],
        "days since the item was first shown": [5, 0],  # six days less a second
    }
    assert "days since the item was first shown" not in sizes_of_groups(samples, dated=False)
