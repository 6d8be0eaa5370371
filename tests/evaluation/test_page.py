"""The page: what is shown and what is left out, cell by cell."""

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
    """One row of the page's table as a dictionary by column heading."""
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    (row,) = [line for line in table[2:] if line[0] == name]
    return dict(zip(table[0], row, strict=True))


def test_the_first_sentence_says_protocol_size_seeds_and_coverage():
    text = page([LR, ROW])
    assert text.startswith(
        "# Toys: all models\n\nProtocol `next_item`, tested once on 38,824 samples of 19,412 users, "
    )
    assert "with 3 seeds per trained model" in text
    assert "GAUC counts 50.0% of the users and 92.5% of the samples" in text


def test_a_row_shows_mean_and_deviation_gain_interval_and_timing():
    assert cells(page([LR, ROW, DIN]), "DIN") == {
        "Model": "DIN",
        "GAUC": "0.7812 ± 0.0012",
        "AUC": "0.7700 ± 0.0020",
        "LogLoss": "0.6000",
        "RelaImpr": "+0.43%",
        "Difference to BaseModel [95% interval]": "+0.0012 [-0.0008, +0.0031]",
        "Training, s": "61.2",
        "Samples/s": "25,012",
    }


def test_only_what_is_significant_after_holms_correction_is_marked():
    text = page([LR, ROW, DIN, {**DIN, "name": "DIN with Dice", "difference_low": 0.0001, "p_holm": 0.06}])
    heading = "Difference to BaseModel [95% interval]"
    assert cells(text, "LR")[heading] == "-0.1400 [-0.1500, -0.1300] *"
    assert cells(text, "DIN")[heading] == "+0.0012 [-0.0008, +0.0031]"
    assert cells(text, "DIN with Dice")[heading] == "+0.0012 [+0.0001, +0.0031]"
    assert cells(text, "BaseModel")[heading] == "–"


BEST = {"second": "pnn", "second_difference": 0.002, "second_difference_low": 0.001}
BEST |= {"second_difference_high": 0.003, "second_p_holm": 0.01}


def test_the_second_is_a_second_measure():
    pnn = {**ROW, **BEST, "model": "pnn", "name": "PNN", "second_difference": np.nan}
    text = page([{**ROW, **BEST}, pnn, {**DIN, **BEST}])
    assert cells(text, "DIN")["Difference to PNN [95% interval]"] == "+0.0020 [+0.0010, +0.0030] *"
    assert cells(text, "PNN")["Difference to PNN [95% interval]"] == "–"
    assert "highest GAUC on the validation set" in text


def test_a_base_that_is_the_second_is_one_column():
    text = page([{**row, **BEST, "second": "base"} for row in (ROW, DIN)])
    assert sum(heading.startswith("Difference") for heading in cells(text, "DIN")) == 1


SHORT = "the test set has only 3 users with both classes (at least 50 are needed: evaluation.minimum_users)"
REFUSED = {"difference_low": np.nan, "difference_high": np.nan, "p_holm": np.nan, "interval_note": SHORT}
REFUSED |= {"rela_impr": np.nan, "gauc_low": np.nan, "gauc_high": np.nan}


def test_a_test_set_that_is_too_small_gives_a_difference_and_the_reason():
    text = page([{**row, **REFUSED} for row in (LR, ROW, DIN)])
    assert cells(text, "LR")["Difference to BaseModel [95% interval]"] == "-0.1400"
    assert cells(text, "LR")["RelaImpr"] == "–"
    assert f"No interval, star or verdict is given: {SHORT}." in text
    assert (
        "RelaImpr is left out: this test set cannot show that BaseModel's GAUC (0.7800) differs from 0.5"
        in text
    )


def test_a_model_with_one_seed_is_marked_and_not_tested():
    single = {**DIN, "p_holm": np.nan, "seed_variance": np.nan, "seeds": 1}
    text = page([LR, ROW, single])
    assert cells(text, "DIN")["Difference to BaseModel [95% interval]"] == "+0.0012 [-0.0008, +0.0031] †"
    assert "DIN: one seed, so the interval is over users only and no difference is tested" in text
    assert "one seed, so" not in page([LR, ROW, DIN])


def test_rela_impr_relative_to_chance_is_left_out_with_the_reason():
    rows = [{**row, "rela_impr": np.nan} for row in (LR, {**ROW, "gauc": 0.51, "gauc_low": 0.49}, DIN)]
    text = page(rows)
    assert cells(text, "LR")["RelaImpr"] == "–"
    assert "RelaImpr is left out: BaseModel's GAUC, 0.5100 with the 95% interval [0.4900, 0.7850]" in text
    assert "RelaImpr is left out" not in page([LR, ROW, DIN])


def test_the_notes_say_that_the_intervals_include_seeds():
    assert "the 95% interval over users and seeds" in page([LR, ROW, DIN])


def test_one_seed_shows_no_deviation():
    assert cells(page([LR, ROW]), "LR")["GAUC"] == "0.6400"
    assert "with 1 seed per trained model" in page([{**ROW, "seeds": 1}])


def test_rows_of_different_numbers_of_seeds_say_theirs():
    rows = [ORACLE, ROW, {**LR, "seeds": 1}, {**DIN, "seeds": 5}]
    text = page(rows)
    assert "with 1 to 5 seeds per trained model" in text
    assert [cells(text, row["name"])["Seeds"] for row in rows] == ["–", "3", "1", "5"]
    assert "Seeds" not in cells(page([ORACLE, ROW, DIN]), "DIN")


def test_without_the_base_its_columns_are_left_out():
    text = page([{**LR, "rela_impr": np.nan, "difference": np.nan}])
    assert list(cells(text, "LR")) == ["Model", "GAUC", "AUC", "LogLoss", "Training, s", "Samples/s"]
    assert "RelaImpr" not in text


def test_the_oracles_share_is_shown_where_it_is_known():
    text = page([{**ROW, "oracle_share": 0.7}, {**ORACLE, "oracle_share": 1.0}])
    assert cells(text, "BaseModel")["Of the oracle's gain"] == "70.0%"
    assert cells(text, "Oracle (true probability)")["Training, s"] == "–"
    assert "with 3 seeds" in text
    assert "oracle" not in page([LR, ROW])


def test_published_figures_stand_beside_ours_with_their_sources_as_footnotes():
    text = page([LR, ROW, DIN], published=PUBLISHED)
    assert cells(text, "BaseModel")["Published"] == "0.8624¹, 0.8790², AUC 0.8815²"
    assert cells(text, "DIN")["Published"] == "0.8818¹"
    assert cells(text, "LR")["Published"] == "–"
    assert "\n¹ Paper A  \n² Paper B\n" in text
    assert "Paper C" not in text


def test_a_dataset_without_published_figures_has_no_such_column():
    assert "Published" not in cells(page([LR, ROW]), "LR")
    assert "Published" not in cells(page([LR, ROW], published={"dien": PUBLISHED["dien"]}), "LR")


@pytest.mark.parametrize("published", [None, PUBLISHED])
def test_the_reader_is_warned_of_other_protocols(published):
    assert "Published figures of another protocol must not be compared" in page(
        [LR, ROW], published=published
    )


def test_a_table_read_back_from_csv_gives_the_same_page(tmp_path):
    rows = [LR, ROW, DIN]
    pd.DataFrame(rows).to_csv(tmp_path / "results.csv", index=False)
    assert page(pd.read_csv(tmp_path / "results.csv")) == page(rows)
