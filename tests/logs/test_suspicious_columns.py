"""Each warning about a feature that predicts the label or is a later time, at, below and above its bound."""

import numpy as np
import pandas as pd
import pytest
from support.log_warnings import DAY, OTHER, START, YEAR, long_before, quiet, shown_at, warnings_of

from deep_interest.logs import suspicions as suspicions_module


def leak_warnings(rows=400, **columns):
    """Warnings about context columns of a log of random labels; a column is made from label, next label and time."""
    _, shown = quiet(rows)
    rng = np.random.default_rng(0)
    shown["user"] = np.arange(rows) // 20
    shown["label"] = rng.integers(0, 2, rows)
    following = shown.groupby("user")["label"].shift(-1)
    made = {name: make(shown, following) for name, make in columns.items()}
    return warnings_of(long_before(shown), shown.assign(**made), context=tuple(columns))


def wrong_in(column, rows):
    """The column with the values of some rows turned round."""
    turned = column.copy()
    turned.iloc[rows] = 1 - turned.iloc[rows]
    return turned


def test_a_context_column_that_predicts_the_label_is_warned_about_with_its_auc():
    found = leak_warnings(
        leak=lambda shown, _: shown["label"], fair=lambda shown, _: np.arange(len(shown)) % 3
    )
    assert found == ["impressions.leak alone predicts the label (AUC 1.000): is it known before the click?"]


@pytest.mark.parametrize(("wrong", "warned"), [(8, True), (30, False)])
def test_a_leak_begins_at_an_auc_of_95_percent(wrong, warned):
    """The labels of every second row, of which 4 % or 15 % are wrong: an AUC of about .96 or .85."""
    rows = np.arange(1, 400, 2)[:: 200 // wrong][:wrong]
    found = leak_warnings(leak=lambda shown, _: wrong_in(shown["label"], rows))
    assert len(found) == warned
    assert all("alone predicts the label (AUC 0.9" in text for text in found)


def test_a_context_column_that_predicts_the_next_label_is_warned_about():
    found = leak_warnings(leak=lambda _, following: following.fillna(0).astype(int))
    assert found == [
        "impressions.leak alone predicts whether the user's next impression is clicked (AUC 1.000): it uses the future"
    ]


@pytest.mark.parametrize(("users", "warned"), [(50, False), (51, True)])
def test_the_next_label_is_looked_at_from_51_rows_on(users, warned):
    """Each user has two impressions, so that as many rows as users have a next one."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 2 * users)
    behaviors, shown = quiet(2 * users)
    shown["label"] = labels
    shown["leak"] = np.where(
        np.arange(2 * users) % 2 == 0, np.roll(labels, -1), rng.integers(0, 2, 2 * users)
    )
    found = warnings_of(behaviors, shown, context=("leak",))
    assert [text.split("'s next")[0] for text in found] == (
        ["impressions.leak alone predicts whether the user"] if warned else []
    )


def test_only_context_columns_are_asked_about_the_next_label():
    """A user whose labels are all equal: the profile predicts the next label as well as this one."""
    behaviors, shown = quiet(200)
    shown["label"] = shown["user"] % 2
    people = pd.DataFrame({"user": range(100), "kind": np.arange(100) % 2})
    assert warnings_of(behaviors, shown, users=people, profile=("user_id", "kind")) == [
        "users.kind alone predicts the label (AUC 1.000): is it known before the click?"
    ]


def test_an_item_column_that_predicts_the_label_is_warned_about():
    behaviors, shown = quiet(200)
    items = pd.DataFrame({"item": [*range(200), OTHER], "kind": [*shown["label"], 5], "fair": 1})
    assert warnings_of(behaviors, shown, items=items, item=("item_id", "kind", "fair")) == [
        "items.kind alone predicts the label (AUC 1.000): is it known before the click?"
    ]


@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000])
@pytest.mark.parametrize("ticks", [1, 1_000])
def test_a_column_of_times_after_the_impression_is_warned_about_in_any_unit(unit, ticks):
    rows = 200
    times = START * ticks + np.arange(rows) * 3 * DAY * ticks // rows
    shown = shown_at(times, users=np.arange(rows) // 2)
    shown["at"] = (shown["time"] // ticks + np.where(np.arange(rows) % 4 < 2, 60, -60)) * unit
    assert warnings_of(long_before(shown, ticks), shown, context=("at",)) == [
        "impressions.at looks like a time, and 50.0% of its values are after the impression: it uses the future"
    ]


def times_found(offsets, *, start=START):
    """Warnings about a column of times that are so many seconds from their impressions'."""
    rows = len(offsets)
    shown = shown_at(start + np.arange(rows) * 3 * DAY // rows, users=np.arange(rows) // 2)
    shown["at"] = shown["time"] + offsets
    return [text for text in warnings_of(long_before(shown), shown, context=("at",)) if "looks like" in text]


@pytest.mark.parametrize(
    ("late", "share"), [(0, None), (1, None), (2, "1.0%"), (3, "1.5%")], ids=["none", "one", "1 %", "more"]
)
def test_one_percent_of_times_after_the_impression_may_be_an_error(late, share):
    offsets = np.where(np.arange(200) < late, 5, -5)
    assert bool(times_found(offsets)) == (share == "1.5%")


def test_a_time_of_the_impressions_own_moment_is_not_after_it():
    assert times_found(np.zeros(200, int)) == []


@pytest.mark.parametrize(("near", "warned"), [(100, False), (101, True)])
def test_a_column_of_times_is_one_that_mostly_lies_within_a_year(near, warned):
    """Half of the rows a year and more off, the others a minute after the impression; exactly a year is too far."""
    offsets = np.where(np.arange(200) < near, 60, YEAR)
    assert bool(times_found(offsets)) == warned


def test_late_times_count_only_where_they_are_near():
    offsets = np.where(np.arange(200) < 198, -60, 5 * YEAR)
    assert times_found(offsets) == []


@pytest.mark.parametrize(("start", "warned"), [(10**8, True), (10**8 - 1, False)])
def test_small_times_count_from_a_day_of_their_own_and_are_not_compared_with_columns(start, warned):
    assert bool(times_found(np.full(200, 60), start=start)) == warned


@pytest.mark.parametrize(
    ("broken", "warned"), [(10, True), (11, False)], ids=["95 % are numbers", "fewer are numbers"]
)
@pytest.mark.parametrize("written", ["number", "ISO time"])
def test_a_text_column_is_numbers_where_95_percent_of_its_values_are(broken, warned, written):
    """200 distinct values, some of which are not numbers."""
    rows = 200
    shown = shown_at(START + np.arange(rows) * 3 * DAY // rows, users=np.arange(rows) // 2)
    later = shown["time"] + 60
    texts = (
        later.astype(str)
        if written == "number"
        else pd.to_datetime(later, unit="s").dt.strftime("%Y-%m-%dT%H:%M:%S")
    )
    shown["at"] = np.where(np.arange(rows) >= rows - broken, [f"x{k}" for k in range(rows)], texts)
    found = warnings_of(long_before(shown), shown, context=("at",))
    assert any("looks like a time" in text for text in found) == warned


def test_a_missing_value_is_a_value_of_its_own_and_no_time():
    """Rows without a time are the clicked ones."""
    rows = 200
    shown = shown_at(START + np.arange(rows) * 3 * DAY // rows, users=np.arange(rows) // 2)
    shown["at"] = (shown["time"] - 60).where(shown["label"] == 0)
    assert warnings_of(long_before(shown), shown, context=("at",)) == [
        "impressions.at alone predicts the label (AUC 1.000): is it known before the click?",
    ]


def test_an_empty_column_gives_no_warning():
    behaviors, shown = quiet(200, blank=np.nan)
    assert warnings_of(behaviors, shown, context=("blank",)) == []


def test_only_the_first_rows_of_a_long_log_are_looked_at(monkeypatch):
    """The second half of the rows has the leak."""
    rows = 400
    shown = shown_at(START + np.arange(rows) * 3 * DAY // rows, users=np.arange(rows) // 2)
    noise = np.random.default_rng(0).integers(0, 2, rows)
    shown["leak"] = np.where(np.arange(rows) < rows // 2, noise, shown["label"] + 2)
    assert len(warnings_of(long_before(shown), shown, context=("leak",))) == 0
    shown["leak"] = np.where(np.arange(rows) < rows // 2, shown["label"] + 2, noise)
    assert len(warnings_of(long_before(shown), shown, context=("leak",))) == 0
    monkeypatch.setattr(suspicions_module, "_MOST_ROWS", rows // 2)
    assert len(warnings_of(long_before(shown), shown, context=("leak",))) == 1


def test_the_auc_of_groups_uses_smoothed_rates_of_the_other_rows():
    # Rows with an even index: group 0 has 1 click in 10, group 1 has 1 in 2. Of the held-out rows group 1 is clicked.
    groups = np.array([0, 0] * 10 + [1, 1] * 2)
    labels = np.zeros(24)
    labels[[0, 20, 21, 23]] = 1
    assert suspicions_module._held_out_auc(groups, labels) == 1.0
