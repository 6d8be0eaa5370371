"""The section on the smallest model that is not worse."""

import re

import numpy as np
import pandas as pd
import pytest

from deep_interest.reporting.smallest_section import format_bytes, smallest_html, smallest_sentences


def table(*, small="not worse") -> pd.DataFrame:
    chosen = small == "not worse"
    rows = [
        ("lr", "LR", 10, 1_240.0, 0.5, -0.02, -0.03, -0.01, 1.0, True, "not shown", False, False),
        ("base", "Base <b>", 2_000, 8_000.0, 2.0, 0.0001, -0.0012, 0.0014, 0.01, False, small, chosen, chosen),
        ("dien", "DIEN", 9_000, 3_600_000.0, 21.5, np.nan, np.nan, np.nan, np.nan, True, "best", not chosen, not chosen),
        ("bst", "BST", 10_000, 4e6, 30.0, 0.0, -0.01, 0.01, np.nan, True, "not cheaper", False, False),
    ]  # fmt: skip
    columns = ["model", "name", "parameters", "bytes", "microseconds", "difference", "low", "high", "p_holm", "seeds", "verdict", "smallest", "fastest"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns).assign(margin=0.002, level=0.05)


def test_the_choice_is_named():
    assert smallest_sentences(table()) == [
        "The smallest model that is not worse is Base <b>: 8 kB instead of 3.6 MB, and a loss below 0.002 GAUC against DIEN, the best model on "
        "validation data.",
        "The fastest model that is not worse is Base <b>: 2 instead of 21.5 µs per sample.",
    ]
    assert smallest_sentences(table(small="not shown")) == [
        "No smaller or faster model is shown to lose less than 0.002 GAUC against DIEN, the best model on validation data: the choice is DIEN."
    ]


def test_a_model_can_be_smaller_without_being_faster_and_the_reverse():
    base, dien = table()["model"] == "base", table()["model"] == "dien"
    assert smallest_sentences(table().assign(fastest=dien))[1] == "No faster model is shown to lose less than 0.002 GAUC."  # fmt: skip
    first, second = smallest_sentences(table().assign(smallest=dien, fastest=base))
    assert (
        first
        == "No smaller model is shown to lose less than 0.002 GAUC against DIEN, the best model on validation data."
    )
    assert second.startswith("The fastest model that is not worse is Base <b>: ")


def test_the_section_shows_every_model_with_its_verdict():
    html = re.sub("</?span>", "", smallest_html(table()))
    rows = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    ]
    assert rows[1:] == [
        ["LR", "1.24 kB", "10", "0.5", "-0.0200 [-0.0300, -0.0100]", "1.000", "may be worse"],
        ["Base &lt;b&gt; (users only)", "8 kB", "2,000", "2", "+0.0001 [-0.0012, +0.0014]", "0.010", "not worse; smallest and fastest"],
        ["DIEN", "3.6 MB", "9,000", "21.5", "", "", "best on validation data"],
        ["BST", "4 MB", "10,000", "30", "+0.0000 [-0.0100, +0.0100]", "", "neither smaller nor faster"],
    ]  # fmt: skip
    assert "Differences have 90% intervals" in html and "“Users only”" in html


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_600, "1 MB"), (1.234e9, "1.23 GB")],
)
def test_bytes_have_three_digits(size, expected):
    assert format_bytes(size) == expected
