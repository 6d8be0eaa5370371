"""The results page: what each cell shows, and what is omitted."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.evaluation.page import results_markdown
from deep_interest.evaluation.published import PublishedMetric

ROW = {
    **{"model": "base", "name": "BaseModel", "gauc": 0.78, "gauc_std": 0.0012, "auc": 0.77, "auc_std": 0.002},
    **{"logloss": 0.6, "rela_impr": 0.0, "user_coverage": 0.5, "impression_coverage": 0.925, "seeds": 3},
    **{"difference": np.nan, "difference_low": np.nan, "difference_high": np.nan, "p_holm": np.nan},
    **{"train_seconds": 61.25, "samples_per_second": 25012.4},
    **{"gauc_low": 0.775, "gauc_high": 0.785, "seed_variance": 1e-6, "interval_note": np.nan},
}
LR = {
    **ROW,
    **{"model": "lr", "name": "LR", "gauc": 0.64, "gauc_std": np.nan, "auc_std": np.nan, "rela_impr": -50.0},
    **{"difference": -0.14, "difference_low": -0.15, "difference_high": -0.13, "p_holm": 0.001},
}
DIN = {
    **ROW,
    **{"model": "din", "name": "DIN", "gauc": 0.7812, "rela_impr": 0.43},
    **{"difference": 0.0012, "difference_low": -0.0008, "difference_high": 0.0031, "p_holm": 0.3},
}
ORACLE = {
    **LR,
    **{"model": "oracle", "name": "Oracle (true probability)", "gauc": 0.9, "seeds": 1},
    **{"train_seconds": np.nan, "samples_per_second": np.nan},
}
PUBLISHED = {
    "base": [
        PublishedMetric("gauc", 0.8624, "Paper A"),
        PublishedMetric("gauc", 0.8790, "Paper B"),
        PublishedMetric("auc", 0.8815, "Paper B"),
    ],
    "din": [PublishedMetric("gauc", 0.8818, "Paper A")],
    "dien": [PublishedMetric("gauc", 0.9, "Paper C")],
}


def page(rows, **options):
    facts = {"title": "Toys: all models", "protocol": "next_item", "test_samples": 38824, "test_users": 19412}
    return results_markdown(pd.DataFrame(rows), **facts, **options)


def cells(text, name):
    """Return one row of the page's table by column heading."""
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    (row,) = [line for line in table[2:] if line[0] == name]
    return dict(zip(table[0], row, strict=True))


def test_summary_states_protocol_seeds_size_and_coverage():
    text = page([LR, ROW])
    assert text.startswith(
        "# Toys: all models\n\nProtocol `next_item`; 3 seeds per trained model; evaluated once on 38,824 test samples of 19,412 users."
    )
    assert "GAUC covers 50.0% of the users and 92.5% of the samples" in text


def test_row_shows_mean_deviation_gain_interval_and_timing():
    assert cells(page([LR, ROW, DIN]), "DIN") == {
        "Model": "DIN",
        "GAUC": "0.7812 ± 0.0012",
        "AUC": "0.7700 ± 0.0020",
        "LogLoss": "0.6000",
        "RelaImpr": "+0.43%",
        "Difference to BaseModel [95% interval]": "+0.0012 [-0.0008, +0.0031]",
        "Training (s)": "61.2",
        "Samples/s": "25,012",
    }


def test_only_differences_significant_after_holm_are_marked():
    text = page([LR, ROW, DIN, {**DIN, "name": "DIN with Dice", "difference_low": 0.0001, "p_holm": 0.06}])
    heading = "Difference to BaseModel [95% interval]"
    assert cells(text, "LR")[heading] == "-0.1400 [-0.1500, -0.1300] *"
    assert cells(text, "DIN")[heading] == "+0.0012 [-0.0008, +0.0031]"
    assert cells(text, "DIN with Dice")[heading] == "+0.0012 [+0.0001, +0.0031]"
    assert cells(text, "BaseModel")[heading] == "–"


BEST = {"second": "pnn", "second_difference": 0.002, "second_difference_low": 0.001}
BEST |= {"second_difference_high": 0.003, "second_p_holm": 0.01}


def test_second_reference_model_adds_a_difference_column():
    pnn = {**ROW, **BEST, "model": "pnn", "name": "PNN", "second_difference": np.nan}
    text = page([{**ROW, **BEST}, pnn, {**DIN, **BEST}])
    assert cells(text, "DIN")["Difference to PNN [95% interval]"] == "+0.0020 [+0.0010, +0.0030] *"
    assert cells(text, "PNN")["Difference to PNN [95% interval]"] == "–"
    assert "the baseline with the highest validation GAUC" in text


def test_base_that_is_also_the_second_reference_adds_one_column():
    text = page([{**row, **BEST, "second": "base"} for row in (ROW, DIN)])
    assert sum(heading.startswith("Difference") for heading in cells(text, "DIN")) == 1


SHORT = "the test set has only 3 users with both classes (at least 50 are needed: evaluation.minimum_users)"
REFUSED = {"difference_low": np.nan, "difference_high": np.nan, "p_holm": np.nan, "interval_note": SHORT}
REFUSED |= {"rela_impr": np.nan, "gauc_low": np.nan, "gauc_high": np.nan}


def test_small_test_set_shows_differences_without_intervals_and_says_why():
    text = page([{**row, **REFUSED} for row in (LR, ROW, DIN)])
    assert cells(text, "LR")["Difference to BaseModel [95% interval]"] == "-0.1400"
    assert cells(text, "LR")["RelaImpr"] == "–"
    assert f"No intervals, significance marks or conclusions are given: {SHORT}." in text
    assert (
        "RelaImpr is omitted: this test set cannot show that BaseModel's GAUC (0.7800) differs from 0.5"
        in text
    )


def test_model_with_one_seed_is_marked_and_not_tested():
    single = {**DIN, "p_holm": np.nan, "seed_variance": np.nan, "seeds": 1}
    text = page([LR, ROW, single])
    assert cells(text, "DIN")["Difference to BaseModel [95% interval]"] == "+0.0012 [-0.0008, +0.0031] †"
    assert "DIN: trained with one seed, so the interval covers users only and no difference is tested" in text
    assert "trained with one seed" not in page([LR, ROW, DIN])


def test_rela_impr_relative_to_chance_is_omitted_with_the_reason():
    rows = [{**row, "rela_impr": np.nan} for row in (LR, {**ROW, "gauc": 0.51, "gauc_low": 0.49}, DIN)]
    text = page(rows)
    assert cells(text, "LR")["RelaImpr"] == "–"
    assert (
        "RelaImpr is omitted: the 95% interval of BaseModel's GAUC, 0.5100 [0.4900, 0.7850], includes 0.5"
        in text
    )
    assert "RelaImpr is omitted" not in page([LR, ROW, DIN])


def test_notes_say_that_intervals_are_over_users_and_seeds():
    assert "95% interval over users and seeds" in page([LR, ROW, DIN])


def test_notes_say_which_models_were_not_searched():
    boosted = {**LR, "model": "boosted", "name": "Boosted trees", "samples_per_second": np.nan}
    rows = [{**LR, "searched": False}, {**ROW, "searched": True}, {**DIN, "searched": True}]
    note = "has found those of BaseModel and DIN. Those of LR were not searched"
    assert note in page([*rows, {**boosted, "searched": False}])
    assert "searched" not in page(rows[1:])  # one budget for all
    assert "searched" not in page([LR, ROW, DIN])  # one recipe for all


def test_single_seed_shows_no_deviation():
    assert cells(page([LR, ROW]), "LR")["GAUC"] == "0.6400"
    assert "; 1 seed per trained model" in page([{**ROW, "seeds": 1}])


def test_seeds_column_is_shown_if_models_differ_in_seeds():
    rows = [ORACLE, ROW, {**LR, "seeds": 1}, {**DIN, "seeds": 5}]
    text = page(rows)
    assert "; 1 to 5 seeds per trained model" in text
    assert [cells(text, row["name"])["Seeds"] for row in rows] == ["–", "3", "1", "5"]
    assert "Seeds" not in cells(page([ORACLE, ROW, DIN]), "DIN")


def test_columns_relative_to_a_missing_base_are_omitted():
    text = page([{**LR, "rela_impr": np.nan, "difference": np.nan}])
    assert list(cells(text, "LR")) == ["Model", "GAUC", "AUC", "LogLoss", "Training (s)", "Samples/s"]
    assert "RelaImpr" not in text


def test_share_of_the_oracles_gain_is_shown_where_known():
    text = page([{**ROW, "oracle_share": 0.7}, {**ORACLE, "oracle_share": 1.0}])
    assert cells(text, "BaseModel")["Share of the oracle's gain"] == "70.0%"
    assert cells(text, "Oracle (true probability)")["Training (s)"] == "–"
    assert "; 3 seeds" in text
    assert "oracle" not in page([LR, ROW])


def test_published_metrics_are_shown_with_sources_as_footnotes():
    text = page([LR, ROW, DIN], published=PUBLISHED)
    assert cells(text, "BaseModel")["Published"] == "0.8624¹, 0.8790², AUC 0.8815²"
    assert cells(text, "DIN")["Published"] == "0.8818¹"
    assert cells(text, "LR")["Published"] == "–"
    assert "\n¹ Paper A  \n² Paper B\n" in text
    assert "Paper C" not in text


def test_published_column_is_omitted_if_nothing_is_published():
    assert "Published" not in cells(page([LR, ROW]), "LR")
    assert "Published" not in cells(page([LR, ROW], published={"dien": PUBLISHED["dien"]}), "LR")


@pytest.mark.parametrize("published", [None, PUBLISHED])
def test_page_warns_against_comparing_other_protocols(published):
    assert "Metrics published for another protocol must not be compared" in page(
        [LR, ROW], published=published
    )


def test_results_read_back_from_csv_give_the_same_page(tmp_path):
    rows = [LR, ROW, DIN]
    pd.DataFrame(rows).to_csv(tmp_path / "results.csv", index=False)
    assert page(pd.read_csv(tmp_path / "results.csv")) == page(rows)
