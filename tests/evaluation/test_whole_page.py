"""The results page and its table as a whole: every cell, every paragraph, and which notes there are."""

import re

import numpy as np
import pandas as pd
import pytest

from deep_interest.evaluation.page import describe_seeds, markdown_row, results_markdown, results_table
from deep_interest.evaluation.published import PublishedMetric
from deep_interest.evaluation.table_notes import join_names, omissions

NOTHING = {"difference": np.nan, "difference_low": np.nan, "difference_high": np.nan, "p_holm": np.nan}
SECOND = {f"second_{name}": value for name, value in NOTHING.items()}


def row(model, name, **columns):
    return {
        "model": model, "name": name, "gauc": 0.7, "gauc_std": np.nan, "auc": 0.65, "auc_std": 0.01, "logloss": 0.5, "rela_impr": 1.5,
        "user_coverage": 0.25, "impression_coverage": 0.5, "seeds": 2, **NOTHING, "second": "pnn", **SECOND, "train_seconds": 1234.56,
        "samples_per_second": 9876.5, "gauc_low": 0.6, "gauc_high": 0.8, "seed_variance": 1e-6, "interval_note": np.nan,
        "oracle_share": 0.5,
    } | columns  # fmt: skip


def versus(difference, low, high, p, prefix=""):
    return {
        f"{prefix}difference": difference, f"{prefix}difference_low": low, f"{prefix}difference_high": high, f"{prefix}p_holm": p,
    }  # fmt: skip


ROWS = [
    row("lr", "A|B", rela_impr=-2.345, gauc_std=0.02, seeds=1, **versus(-0.1, -0.2, -0.05, 0.049)),
    row("ours", "<b>", **versus(0.01, 0.005, 0.02, 0.05, "second_")),
    row("pnn", "PNN", train_seconds=np.nan, **versus(0.02, -0.01, 0.05, np.nan)),
    row("oracle", "Oracle", seeds=1, samples_per_second=np.nan, **versus(0.2, 0.1, 0.3, np.nan), **versus(0.1, np.nan, np.nan, np.nan, "second_")),
]  # fmt: skip
PUBLISHED = {
    "pnn": [PublishedMetric("auc", 0.87654, "B"), PublishedMetric("gauc", 0.5, "A")],
    "ours": [PublishedMetric("gauc", 0.9, "A")],
    "other": [PublishedMetric("gauc", 0.9, "C")],
}
HEADINGS = [
    "Model", "GAUC", "AUC", "LogLoss", "RelaImpr", "Difference to <b> [95% interval]", "Difference to PNN [95% interval]", "Seeds",
    "Share of the oracle's gain", "Published", "Training (s)", "Samples/s",
]  # fmt: skip
CELLS = [
    ["A|B", "0.7000 ± 0.0200", "0.6500 ± 0.0100", "0.5000", "-2.35%", "-0.1000 [-0.2000, -0.0500] *", "–", "1", "50.0%", "–", "1,234.6", "9,876"],
    ["<b>", "0.7000", "0.6500 ± 0.0100", "0.5000", "+1.50%", "–", "+0.0100 [+0.0050, +0.0200]", "2", "50.0%", "0.9000²", "1,234.6", "9,876"],
    ["PNN", "0.7000", "0.6500 ± 0.0100", "0.5000", "+1.50%", "+0.0200 [-0.0100, +0.0500] †", "–", "2", "50.0%", "AUC 0.8765¹, 0.5000²", "–", "9,876"],
    ["Oracle", "0.7000", "0.6500 ± 0.0100", "0.5000", "+1.50%", "+0.2000 [+0.1000, +0.3000]", "+0.1000", "–", "50.0%", "–", "1,234.6", "–"],
]  # fmt: skip
OPTIONS = {"published": PUBLISHED, "base": "ours"}
FACTS = {"title": "Two\nlines", "protocol": "by_day", "test_samples": 12345, "test_users": 6789}


def test_every_cell_of_a_table_with_all_columns():
    table = results_table(pd.DataFrame(ROWS), **OPTIONS)
    assert table.headings == HEADINGS
    assert table.rows == CELLS
    assert table.sources == ["B", "A"]


def test_every_paragraph_of_a_page_with_all_columns():
    notes = results_table(pd.DataFrame(ROWS), **OPTIONS).notes
    paragraphs = results_markdown(pd.DataFrame(ROWS), **FACTS, **OPTIONS).split("\n\n")
    assert paragraphs[0] == "# Two lines"
    assert re.findall(r"`by_day`|1 to 2 seeds|12,345|6,789|25\.0%|50\.0%", paragraphs[1]) == [
        "`by_day`", "1 to 2 seeds", "12,345", "6,789", "25.0%", "50.0%",
    ]  # fmt: skip
    table = [" | ".join(line) for line in (HEADINGS, [":---"] + ["---:"] * 11, *CELLS)]
    table = [line.replace("A|B", r"A\|B").replace("<", "&lt;") for line in table]
    assert paragraphs[2].split("\n") == [f"| {line} |" for line in table]
    assert paragraphs[3] == "¹ B  \n² A"
    assert paragraphs[4] == "## How to read the table"
    assert paragraphs[5] == "\n".join(f"- {note}" for note in notes).replace("<", "&lt;") + "\n"
    assert len(paragraphs) == 6


def test_a_page_without_published_metrics_has_no_footnotes():
    paragraphs = results_markdown(pd.DataFrame(ROWS), base="ours", **FACTS).split("\n\n")
    assert paragraphs[3] == "## How to read the table"
    assert len(paragraphs) == 5


def test_learning_curves_of_the_test_set_are_mentioned():
    once, shown = (
        results_markdown(pd.DataFrame(ROWS), **FACTS, curves_show_test=curves).split("\n\n")[1] for curves in (False, True)
    )  # fmt: skip
    assert "learning curves" in shown
    assert "learning curves" not in once
    assert ("evaluated once" in once, "evaluated once" in shown) == (True, False)
    assert results_markdown(pd.DataFrame(ROWS), **FACTS).split("\n\n")[1] == once


def bold(rows, **options):
    """The bold terms that each note explains."""
    return [re.findall(r"\*\*(.+?)\*\*", note) for note in results_table(pd.DataFrame(rows), **options).notes]


ALWAYS, END = [["GAUC"], ["±", "AUC", "LogLoss"]], [[], ["Training (s)", "Samples/s"]]
BASE_NOTE = ["RelaImpr", "Difference"]


def test_every_shown_column_is_explained_and_no_other():
    untested = []  # PNN's difference has an interval, but no model of the table has one seed alone
    assert bold(ROWS, **OPTIONS) == [
        *ALWAYS, BASE_NOTE, *untested, [], ["Share of the oracle's gain"], ["Published"], *END,
    ]  # fmt: skip
    without = [{name: value for name, value in one.items() if name != "oracle_share"} for one in ROWS[:2]]
    assert bold(without, base="ours") == [*ALWAYS, BASE_NOTE, *END]
    assert bold(without) == [*ALWAYS, *END]


def test_every_omission_has_its_sentence_and_a_complete_table_has_none():
    complete = pd.DataFrame(ROWS[:2])
    assert omissions(complete, "ours") == []
    refused = complete.assign(difference_low=np.nan, interval_note="too few users")
    (sentence,) = omissions(refused, "ours")
    assert sentence.endswith(": too few users.")
    untested = pd.DataFrame([{**ROWS[0], "p_holm": np.nan, "seed_variance": np.nan}, ROWS[1]])
    (sentence,) = omissions(untested, "ours")
    assert sentence.startswith("A|B: trained with one seed")
    tested = pd.DataFrame([{**ROWS[0], "seed_variance": np.nan}, ROWS[1]])
    assert omissions(tested, "ours") == []
    assert omissions(pd.DataFrame([ROWS[1], {**ROWS[3], **NOTHING, "difference": 0.1}]), "ours") == []


@pytest.mark.parametrize(
    ("low", "high", "reason"),
    [
        (np.nan, np.nan, "this test set cannot show that <b>'s GAUC (0.7000) differs from 0.5"),
        (0.4, 0.6, "the 95% interval of <b>'s GAUC, 0.7000 [0.4000, 0.6000], includes 0.5"),
        (0.4, 0.5, "the 95% interval of <b>'s GAUC, 0.7000 [0.4000, 0.5000], includes 0.5"),
        (0.3, 0.49, "the 95% interval of <b>'s GAUC, 0.7000 [0.3000, 0.4900], is below 0.5"),
    ],
)
def test_the_missing_rela_impr_is_explained_by_the_bases_interval(low, high, reason):
    rows = [
        ROWS[0] | {"rela_impr": np.nan},
        ROWS[1] | {"rela_impr": np.nan, "gauc_low": low, "gauc_high": high},
    ]
    (sentence,) = omissions(pd.DataFrame(rows), "ours")
    assert sentence.startswith(f"RelaImpr is omitted: {reason}")
    assert omissions(pd.DataFrame(rows), "lr") != [sentence]
    assert omissions(pd.DataFrame(rows)) == []
    rows[0]["rela_impr"] = 1.0
    assert omissions(pd.DataFrame(rows), "ours") == []


@pytest.mark.parametrize(
    ("seeds", "speeds", "expected"),
    [
        ([1, 1], [9, 9], "1 seed"),
        ([2, 2], [9, 9], "2 seeds"),
        ([2, 5], [9, 9], "2 to 5 seeds"),
        ([5, 1], [9, np.nan], "5 seeds"),  # one that is not trained
        ([3, 1], [np.nan, np.nan], "1 to 3 seeds"),
    ],
)
def test_seeds_are_described_by_the_trained_models(seeds, speeds, expected):
    assert describe_seeds(pd.DataFrame({"seeds": seeds, "samples_per_second": speeds})) == expected


def test_a_cells_text_stays_in_its_cell():
    assert markdown_row(["a|b", "c\\d", "<i>", "two\nlines"]) == r"| a\|b | c\\d | &lt;i> | two lines |"


@pytest.mark.parametrize(
    ("names", "text"), [(["A"], "A"), (["A", "B"], "A and B"), (["A", "B", "C"], "A, B and C")]
)
def test_names_are_enumerated(names, text):
    assert join_names(names) == text
