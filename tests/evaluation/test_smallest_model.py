"""The smallest model that is not worse: values by hand, verdicts, and that chance alone lets nothing pass."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from deep_interest.evaluation.comparison import ModelRuns
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.evaluation.smallest_model import ModelCost, smallest_model_table

SAMPLES = 10  # of a user, half of them positive
COSTS = {
    "large": ModelCost(900, 4000, 9.0),
    "equal": ModelCost(300, 2000, 10.0),
    "quick": ModelCost(800, 4000, 1.0),
    "worse": ModelCost(10, 100, 0.5),
    "slow": ModelCost(1000, 5000, 11.0),
}


def test_set(users: int) -> pd.DataFrame:
    return pd.DataFrame({"user": np.repeat(np.arange(users), SAMPLES), "label": np.tile([1, 0], users * SAMPLES // 2)})  # fmt: skip


test_set.__test__ = False


def losing(pairs, *, validation=0.6) -> ModelRuns:
    """Return a fixed model: for each user one of the 5 negatives is above so many of the 5 positives, so that the AUC is 1 - pairs / 25."""
    scores = [
        np.ravel(np.column_stack([[1, 2, 3, 4, 5], [0.5 + lost, 0.1, 0.1, 0.1, 0.1]])) for lost in pairs
    ]
    never = np.full(1, np.nan)
    return ModelRuns("Model", (0,), np.concatenate(scores)[None] / 10, never, never, validation_gauc=validation, deterministic=True)  # fmt: skip


def random_runs(rng, users, *, noise, seeds=2, validation=0.6, base=None) -> ModelRuns:
    labels = test_set(users)["label"].to_numpy()
    base = labels + rng.normal(size=len(labels)) if base is None else base
    scores = base + noise * rng.normal(size=(seeds, len(labels)))
    never = np.full(seeds, np.nan)
    return ModelRuns("Model", tuple(range(seeds)), 1 / (1 + np.exp(-scores)), never, never, validation_gauc=validation)  # fmt: skip


def test_the_test_by_hand():
    # 100 users: 50 lose 1/25, 50 lose nothing; mean -.02, standard error .02 / sqrt(99)
    runs = {"large": losing([0] * 100, validation=0.7), "small": losing([1] * 50 + [0] * 50)}
    costs = {"large": COSTS["large"], "small": COSTS["worse"]}
    table = smallest_model_table(
        test_set(100), runs, costs, minimum=EvaluationParameters(margin=0.025)
    ).set_index("model")
    error = 0.02 / np.sqrt(99)
    small = table.loc["small"]
    assert small["difference"] == pytest.approx(-0.02)
    half = stats.t.ppf(0.95, 99) * error
    assert (small["low"], small["high"]) == pytest.approx((-0.02 - half, -0.02 + half))
    assert small["p_holm"] == pytest.approx(stats.t.cdf((-0.025 + 0.02) / error, 99))
    assert small["verdict"] == "not worse"
    assert table.index.tolist() == ["small", "large"]  # fewest bytes first
    assert table["smallest"].tolist() == table["fastest"].tolist() == [True, False]
    narrow = smallest_model_table(test_set(100), runs, costs, minimum=EvaluationParameters(margin=0.02))
    assert narrow["verdict"].tolist() == ["not shown", "best"]
    assert narrow["smallest"].tolist() == [False, True]


def test_smallest_and_fastest_are_chosen_among_the_models_that_pass():
    rng, users = np.random.default_rng(0), 2000
    labels = test_set(users)["label"].to_numpy()
    base = labels + rng.normal(size=len(labels))
    runs = {
        name: random_runs(rng, users, noise=noise, base=base, validation=0.7 if name == "large" else 0.6)
        for name, noise in (("large", 0.1), ("equal", 0.1), ("quick", 0.1), ("worse", 2.0), ("slow", 0.1))
    }
    table = smallest_model_table(test_set(users), runs, COSTS, minimum=EvaluationParameters(margin=0.01))
    verdicts = dict(zip(table["model"], table["verdict"], strict=True))
    assert verdicts == {
        "worse": "not shown",
        "equal": "not worse",
        "large": "best",
        "quick": "not worse",
        "slow": "not cheaper",
    }
    assert table.loc[table["smallest"], "model"].tolist() == ["equal"]
    assert table.loc[table["fastest"], "model"].tolist() == ["quick"]
    assert table["p_holm"].isna().tolist() == [name in ("large", "slow") for name in table["model"]]
    assert table.set_index("model").loc["slow", ["difference", "low", "high"]].notna().all()


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), margin=st.floats(1e-9, 0.4))
def test_a_model_with_the_same_predictions_is_never_worse(seed, margin):
    best = random_runs(np.random.default_rng(seed), 60, noise=0.5, seeds=1, validation=0.7)
    same = ModelRuns("Same", best.seeds, best.probabilities, best.train_seconds, best.train_seconds, validation_gauc=0.6)  # fmt: skip
    costs = {"large": COSTS["large"], "same": COSTS["worse"]}
    table = smallest_model_table(
        test_set(60), {"large": best, "same": same}, costs, minimum=EvaluationParameters(margin=margin)
    )
    assert table["verdict"].tolist() == ["not worse", "best"]
    assert table["smallest"].tolist() == [True, False]


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), noise=st.floats(0.5, 3))
def test_a_model_that_lost_the_margin_or_more_never_passes(seed, noise):
    rng = np.random.default_rng(seed)
    labels = test_set(60)["label"].to_numpy()
    base = labels + rng.normal(size=len(labels))
    best = random_runs(rng, 60, noise=0.0, base=base, validation=0.7)
    noisy = random_runs(rng, 60, noise=noise, base=base)
    costs = {"large": COSTS["large"], "noisy": COSTS["worse"]}
    runs = {"large": best, "noisy": noisy}

    def found(margin):
        return smallest_model_table(test_set(60), runs, costs, minimum=EvaluationParameters(margin=margin)).iloc[0]  # fmt: skip

    lost = -found(0.1)["difference"]
    for margin in (1e-9, lost / 2, lost) if lost > 1e-8 else (1e-9,):
        row = found(margin)
        assert row["verdict"] == "not shown"
        assert row["p_holm"] >= 0.5 or lost <= 1e-8


def test_single_fits_are_marked():
    rng = np.random.default_rng(0)
    runs = {
        "large": random_runs(rng, 60, noise=0.1, validation=0.7),
        "worse": random_runs(rng, 60, noise=0.1, seeds=1),
    }
    table = smallest_model_table(test_set(60), runs, {name: COSTS[name] for name in runs}).set_index("model")
    assert table["seeds"].to_dict() == {"worse": False, "large": True}


@pytest.mark.parametrize("case", ["few users", "no cost", "no validation"])
def test_nothing_is_said_without_evidence(case):
    rng = np.random.default_rng(0)
    validation = np.nan if case == "no validation" else 0.7
    users = 20 if case == "few users" else 60
    runs = {"large": random_runs(rng, users, noise=0.1, validation=validation)}
    costs = {} if case == "no cost" else {"large": COSTS["large"]}
    assert smallest_model_table(test_set(users), runs, costs).empty
