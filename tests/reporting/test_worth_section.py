"""Sentences, page and section on what data, history length and width are worth."""

import re

import numpy as np
import pandas as pd
import pytest

from deep_interest.figures.worth import worth_chart
from deep_interest.reporting.worth_section import worth_html, worth_markdown, worth_sentences


def curve(axis, values, differences, p_values, *, half=0.001, gains=None) -> pd.DataFrame:
    """Return the rows of an axis; the last value has no difference."""
    differences, p_values = [*differences, np.nan], [*p_values, np.nan]
    gains = [np.nan] * len(values) if gains is None else gains
    rows = [
        {
            "model": "din", "axis": axis, "value": float(value), "setting": f"{axis}_{value}", "samples": 100.0, "users": 10.0, "gauc": 0.6,
            "gauc_std": 0.01, "validation_gauc": 0.61, "train_seconds": 2.0, "seeds": 3, "difference": d, "difference_low": d - half,
            "difference_high": d + half, "p_value": p, "p_holm": p, "interval_note": None, "gain": gain, "gain_low": gain - half,
            "gain_high": gain + half,
        }
        for value, d, p, gain in zip(values, differences, p_values, gains, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_last_doubling_of_the_log_is_described_with_its_interval():
    table = curve("days", [3, 7, 14], [-0.03, -0.004], [0.0, 0.01], gains=[np.nan, 0.026, 0.004])
    assert worth_sentences(table) == [
        "The last doubling of the log, from 7 to 14 training days, brought +0.0040 GAUC (95 % interval +0.0030 to +0.0050)."
    ]
    other = curve("users", [0.25, 1], [-0.03], [0.0], gains=[np.nan, 0.0005])
    assert worth_sentences(other) == [
        "4 times the log, from 25 % to 100 % of the training users, brought +0.0005 GAUC (95 % interval -0.0005 to +0.0015), which is not "
        "significant."
    ]


@pytest.mark.parametrize(
    ("differences", "p_values", "expected"),
    [
        ([-0.03, -0.004, -0.001], [0.001, 0.01, 0.4], "From the history length 20 on, nothing more is significant: 50 instead of 20 brings +0.0010 GAUC (95 % interval +0.0004 to +0.0016)."),
        ([-0.03, -0.004, -0.01], [0.4, 0.4, 0.01], "The history length 50 is significantly better than 20, by +0.0100 GAUC (95 % interval +0.0094 to +0.0106): an even larger one may bring more."),
        ([-0.03, -0.004, -0.001], [0.4, 0.4, 0.4], "From the history length 5 on, nothing more is significant: 50 instead of 5 brings +0.0300 GAUC (95 % interval +0.0294 to +0.0306)."),
        # a value in between that is significantly worse does not count as enough
        ([-0.001, -0.03, -0.001], [0.4, 0.001, 0.4], "From the history length 20 on, nothing more is significant: 50 instead of 20 brings +0.0010 GAUC (95 % interval +0.0004 to +0.0016)."),
    ],
)  # fmt: skip
def test_the_length_from_which_on_nothing_is_significant(differences, p_values, expected):
    assert worth_sentences(curve("max_len", [5, 10, 20, 50], differences, p_values, half=0.0006)) == [
        expected
    ]


def test_a_smaller_value_that_is_better_is_named():
    sentences = worth_sentences(curve("embedding_dim", [4, 8], [0.02], [0.001]))
    assert sentences == [
        "From the embedding width 4 on, nothing more is significant: 8 instead of 4 brings -0.0200 GAUC (95 % interval -0.0210 to -0.0190).",
        "The embedding width 4 is significantly better than 8, by +0.0200 GAUC (95 % interval +0.0190 to +0.0210).",
    ]


def test_without_p_values_no_threshold_is_named():
    table = curve("max_len", [5, 10], [-0.02], [np.nan]).assign(
        interval_note=["over users only: max_len_5 and full have one seed", None]
    )
    assert worth_sentences(table) == [
        "From which history length on nothing more is significant is unknown: over users only: max_len_5 and full have one seed."
    ]
    small = curve("days", [1, 2], [-0.02], [np.nan], gains=[np.nan, 0.01], half=np.nan)
    assert worth_sentences(small)[0].endswith("brought +0.0100 GAUC (no interval on so small a test set).")


def test_page_section_and_chart_have_every_value():
    table = pd.concat(
        [
            curve("users", [0.5, 1], [-0.0312], [0.0], gains=[np.nan, 0.0312]),
            curve("max_len", [5, 100], [-0.02], [0.2]),
        ],
        ignore_index=True,
    )
    page, section = worth_markdown(table, title="Shop <b>"), re.sub("</?span>", "", worth_html(table))
    assert page.startswith("# Shop &lt;b>\n")
    for text in (page, section):
        for value in ("50 %", "-0.0312 [-0.0322, -0.0302] *", "+0.0312 [+0.0302, +0.0322]", "-0.0200 [-0.0210, -0.0190]"):  # fmt: skip
            assert value in text
        assert "nothing is selected by them" in text
    chart = worth_chart(table, title="Shop")
    (line,) = chart.panels[0].marks
    assert chart.panels[0].x_ticks == ["50 %", "100 %"]
    assert line.lower == pytest.approx([0.6 - 0.0322, 0.6]) and line.upper == pytest.approx([0.6 - 0.0302, 0.6])  # fmt: skip
    without = worth_chart(table.assign(difference_low=np.nan, difference_high=np.nan), title="Shop")
    assert without.panels[0].marks[0].lower is None
