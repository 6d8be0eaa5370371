"""Fits of the settings: each once, kept, and scored on the same test set."""

import numpy as np
import pandas as pd
import pytest
from support.training import small_data

from deep_interest.training.experiment import Experiment
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.worth import fits
from deep_interest.worth.fits import fit_settings
from deep_interest.worth.settings import Axis

pytestmark = pytest.mark.slow

AXES = (Axis("users", (0.5, 1.0), 1.0), Axis("max_len", (2, 10), 10), Axis("embedding_dim", (2, 4), 4))
KEYS = ("users_0.5", "full", "max_len_2", "embedding_dim_2")


def experiment(folder) -> Experiment:
    recipe = Recipe(
        training={"epochs": 1, "batch_size": 64, "max_len": 10}, model={"embedding_dim": 4, "hidden": [4]}
    )
    run = RunParameters(workspace=str(folder), processes=1, device="cpu")
    return Experiment("shop", "base", RowOptions({}), recipe, (1, 2), run)


def without_timing(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns="train_seconds")


def test_a_killed_run_loses_no_finished_fit(tmp_path, monkeypatch):
    data = small_data()
    expected, answers = fit_settings(experiment(tmp_path / "whole"), data, AXES)
    assert answers.columns.tolist() == ["user", "item", *(f"{key}_seed_{k}" for key in KEYS for k in (1, 2))]
    assert answers.attrs == {"data": data.fingerprint()}
    assert len(answers) == (data.samples["split"] == "test").sum()
    assert expected["setting"].tolist() == [key for key in ("users_0.5", "full", "max_len_2", "full", "embedding_dim_2", "full") for _ in range(2)]  # fmt: skip
    train = data.samples[data.samples["split"] == "train"]
    assert set(expected.loc[expected["setting"] != "users_0.5", "users"]) == {train["user"].nunique()}
    halves = expected[expected["setting"] == "users_0.5"]
    assert set(halves["users"]) == {round(train["user"].nunique() / 2)}
    assert (halves["samples"] == 6 * halves["users"]).all()  # of six samples per user

    fit_seed, started = fits.fit_seed, []

    def interrupted(chosen, part, seed):
        if len(started) == 3:
            raise KeyboardInterrupt
        started.append((chosen.model_variant, seed))
        return fit_seed(chosen, part, seed)

    own = experiment(tmp_path / "killed")
    monkeypatch.setattr(fits, "fit_seed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_settings(own, data, AXES)
    monkeypatch.setattr(fits, "fit_seed", fit_seed)
    files = sorted((tmp_path / "killed").rglob("seed_*.pt"))
    assert len(files) == 3
    written = [file.stat().st_mtime_ns for file in files]
    resumed, scored = fit_settings(own, data, AXES)
    assert [file.stat().st_mtime_ns for file in files] == written
    pd.testing.assert_frame_equal(without_timing(resumed), without_timing(expected), check_exact=True)
    pd.testing.assert_frame_equal(scored, answers, check_exact=True)
    different = [not np.array_equal(answers[f"{key}_seed_1"], answers["full_seed_1"]) for key in KEYS if key != "full"]  # fmt: skip
    assert all(different)
