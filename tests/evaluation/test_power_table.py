"""The table of power: the values of `power_of` for each model, with the variance over its fits."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.evaluation import power_of, user_aucs
from deep_interest.evaluation.comparison import ModelRuns
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.evaluation.metrics import per_user_auc
from deep_interest.evaluation.power_table import power_table
from deep_interest.evaluation.seed_variance import FIXED, variance_over_seeds
from deep_interest.evaluation.significance import mean_over_seeds

USERS = np.repeat(np.arange(200), 4)
LABELS = np.tile([1, 0, 1, 0], 200)
TEST = pd.DataFrame({"user": USERS, "label": LABELS})


def runs(name: str, strength: float, *, seeds: int = 2, deterministic: bool = False) -> ModelRuns:
    rng = np.random.default_rng(seeds)
    scores = 1 / (1 + np.exp(-(strength * LABELS + rng.standard_normal((seeds, len(LABELS))))))
    never = np.zeros(seeds)
    return ModelRuns(name, tuple(range(seeds)), scores, never, never, deterministic=deterministic)


MODELS = {
    "base": runs("BaseModel", 0.5),
    "din": runs("DIN", 1.0, seeds=3),
    "item_rate": runs("Item rate", 0.2, seeds=1, deterministic=True),
    "dien": runs("DIEN", 1.0, seeds=1),
}


def test_rows_have_the_values_of_power_of():
    table = power_table(TEST, MODELS, days=3).set_index("model")
    assert table.index.tolist() == ["din", "item_rate", "dien"]
    assert table["seeds"].tolist() == [True, True, False]  # one fit of DIEN says nothing about another
    assert set(table["users"]) == {200} and set(table["days"]) == {3} and set(table["base"]) == {"BaseModel"}
    scored = {key: [per_user_auc(USERS, LABELS, p) for p in of.probabilities] for key, of in MODELS.items()}
    seeds = {key: variance_over_seeds(scored[key]) for key in ("base", "din")} | {"item_rate": FIXED}
    for key, row in table.iterrows():
        known = [seeds[name] for name in (key, "base") if name in seeds]
        expected = power_of(mean_over_seeds(scored[key]), mean_over_seeds(scored["base"]), seeds=known)
        assert row["smallest_difference"] == expected.smallest_difference
        assert [row[f"factor_{d}"] for d in (0.001, 0.002, 0.005)] == [
            expected.factor(d) for d in (0.001, 0.002, 0.005)
        ]


def test_two_fixed_models_have_the_power_of_their_users_alone():
    fixed = {
        key: runs(key, s, seeds=n, deterministic=True)
        for key, s, n in (("base", 0.5, 1), ("item_rate", 0.2, 1))
    }
    (row,) = power_table(TEST, fixed).itertuples()
    aucs = [user_aucs(USERS, LABELS, fixed[key].probabilities) for key in ("item_rate", "base")]
    assert row.smallest_difference == power_of(*aucs).smallest_difference
    assert np.isnan(row.days)


@pytest.mark.parametrize("options", [{"base": "lr"}, {"minimum": EvaluationParameters(minimum_users=201)}])
def test_without_the_base_or_enough_users_there_are_no_rows(options):
    assert power_table(TEST, MODELS, **options).empty
