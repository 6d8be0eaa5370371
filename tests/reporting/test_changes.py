"""The section of the report on the changes since the last run."""

import re

import pandas as pd

from deep_interest.reporting.changes import changes_html


def results(**gauc):
    return pd.DataFrame(
        {"model": list(gauc), "name": [key.upper() for key in gauc], "gauc": list(gauc.values())}
    )


def cells(text):
    rows = re.findall(r"<tr>(.*?)</tr>", text)[1:]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_changed_models_come_first_and_others_are_counted():
    before = results(base=0.6, din=0.61, lr=0.58, fm=0.55, oracle=0.9)
    now = results(base=0.6, din=0.6125, lr=0.57, dien=0.62, oracle=0.95)
    text = changes_html(now, "run-1", "environment smoke", before)
    assert cells(text) == [["LR", "0.5800", "0.5700", "-0.0100"], ["DIN", "0.6100", "0.6125", "+0.0025"]]
    assert (
        "Compared with run run-1 (environment smoke). The GAUC of 1 model is the same in four decimals. New: DIEN. "
        "No longer in the table: FM." in text
    )


def test_without_a_change_there_is_one_sentence():
    before = results(base=0.6, din=0.61)
    now = results(base=0.6, din=0.610001)
    assert changes_html(now, "<r>", "environment <b>", before) == (
        "<p>Compared with run &lt;r&gt; (environment &lt;b&gt;). The GAUC of 2 models is the same in four decimals.</p>"
    )
