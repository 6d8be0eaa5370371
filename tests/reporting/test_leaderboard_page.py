"""The page of a leaderboard: its table, its verdict, and which model leads with how many trials."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.evaluation.comparison import ModelRuns
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.reporting.leaderboard import Budget, leaderboard_html, leaderboard_markdown
from deep_interest.tuning.expected_best import expected_best_table
from deep_interest.tuning.known_options import known_result
from deep_interest.tuning.leaderboard_table import leaderboard_table

USERS = 60
SCORES = {"item_knn": [0.71, 0.72, 0.70, 0.71], "base": [0.70, 0.75, 0.70, 0.70], "din": [0.73, 0.76]}
"""Validation GAUC of each trial; DIN had time for two."""


def runs_of(name, noise, validation_gauc):
    random = np.random.default_rng(7)
    labels = np.tile([0, 1, 0], USERS)
    fits = [np.clip(labels * 0.5 + random.normal(0.25, noise, len(labels)), 0.01, 0.99) for _ in range(2)]
    return ModelRuns(
        name=name,
        seeds=(1, 2),
        probabilities=np.array(fits, dtype=np.float32),
        train_seconds=np.ones(2),
        samples_per_second=np.full(2, 100.0),
        validation_gauc=validation_gauc,
    )


def table_of(trials, *, known=()):
    """Return the table of Item kNN, BaseModel and DIN with the validation GAUC of some trials, and what was found; known models have none."""
    test = pd.DataFrame({"user": np.repeat(range(USERS), 3), "label": np.tile([0, 1, 0], USERS)})
    runs = {
        "item_knn": runs_of("Item kNN", 0.6, 0.72),
        "base": runs_of("BaseModel", 0.5, 0.75),
        "din": runs_of("DIN", 0.1, 0.76),
    }
    found = {
        model: {
            "values": {"training.learning_rate": 0.01}, "importance": {"training.learning_rate": 1.0}, "finished": len(scores), "pruned": 0,
            "validation_gauc": max(scores), "first_gauc": scores[0], "processor_seconds": 60.0,
        }
        for model, scores in trials.items()
    }  # fmt: skip
    found |= {
        model: known_result({"training.l2": 0.1}, dataset="shop", model=model, recipe="ours", data="", known="shop_leaderboard")
        for model in known
    }  # fmt: skip
    minimum = EvaluationParameters(minimum_users=5, minimum_positives=5)
    return leaderboard_table(test, runs, found, simple=["item_knn"], minimum=minimum), found


def page_of(trials, *, known=()):
    """Return the page of that table."""
    table, found = table_of(trials, known=known)
    rows = [
        {"model": model, "validation_gauc": score}
        for model, scores in trials.items() if model not in known for score in scores
    ]  # fmt: skip
    return leaderboard_markdown(
        table, found, expected_best_table(pd.DataFrame(rows, columns=["model", "validation_gauc"])), title="Shop: leaderboard",
        dataset="shop", protocol="next_item", test_samples=3 * USERS, test_users=USERS, budget=Budget(4, 10.0),
    )  # fmt: skip


@pytest.fixture(scope="module")
def page():
    return page_of(SCORES)


def rows_after(page, heading):
    lines = page.split(heading)[1].splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("|"))
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:] if line[:1] == "|"
    ]


def test_the_best_model_comes_first_and_is_compared_with_the_best_simple_one(page):
    assert "Every model has 4 trials, or as many as fit into 10 minutes of processor time" in page
    assert [row[0] for row in rows_after(page, "# Shop")[2:5]] == ["DIN", "BaseModel", "Item kNN"]
    assert (
        "DIN is the best model and Item kNN the best simple one. On the test set they differ by +0." in page
    )
    assert "significant at the 5% level after Holm's correction." in page


def test_models_without_trials_of_their_own_are_named(page):
    mixed = page_of(SCORES, known=["item_knn", "base"])
    sentence = "have the options that an earlier leaderboard has found (recipe `shop_leaderboard`), and no trials here."
    assert f"BaseModel and Item kNN {sentence}" in mixed
    assert sentence not in page
    assert rows_after(mixed, "## What the options were worth")[3] == ["BaseModel", "`l2` 0.1", "–"]
    assert rows_after(mixed, "## Budget and cost")[3][1:7] == ["–"] * 6
    assert "DIN has the options" in page_of(SCORES, known=["din"])


@pytest.mark.parametrize("known", [[], ["din"], list(SCORES)])
def test_the_section_of_the_report_names_the_largest_number_of_trials(known):
    caption = leaderboard_html(table_of(SCORES, known=known)[0])
    assert (
        f"tuned on validation data{' with at most 4 trials' if len(known) < 3 else ''}, then scored once"
        in caption
    )


def test_a_model_with_fewer_trials_keeps_the_value_of_its_last_one(page):
    table = rows_after(page, "## Does the order depend on the budget?")
    assert table[0] == ["Model", "1 trial", "2 trials", "4 trials"]
    # DIN: mean of 0.73 and 0.76, then the better one; BaseModel: the mean 0.7125, half of 0.75 and 0.70, then the best
    assert table[2:5] == [
        ["DIN", "0.7450", "0.7600", "–"],
        ["BaseModel", "0.7125", "0.7250", "0.7500"],
        ["Item kNN", "0.7100", "0.7150", "0.7200"],
    ]
    assert (
        "DIN leads at every number of trials. Between 2 and 4 trials, 0 of 1 pairs of models change" in page
    )


def test_the_leader_may_depend_on_the_number_of_trials():
    page = page_of({"base": [0.70, 0.71], "din": [0.60, 0.60, 0.80, 0.80], "item_knn": [0.65]})
    assert "depends on the number of trials: BaseModel with 1 and DIN with 2 to 4." in page
    table = rows_after(page, "## Does the order depend on the budget?")
    assert [row[0] for row in table[2:5]] == ["DIN", "BaseModel", "Item kNN"]


def test_options_are_aligned_as_text(page):
    headings, alignments = page.split("| Model | Best options")[1].splitlines()[:2]
    assert alignments == "| :--- | :--- | :--- |"
    assert headings == " | Most important options |"
