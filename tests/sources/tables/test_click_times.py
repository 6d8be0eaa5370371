"""The time of the click of an impression."""

import pytest
from support.tables import FEATURES, declare_impressions, read, write

from deep_interest.errors import InputError
from deep_interest.logs.contracts import validate
from deep_interest.logs.tables import NEVER
from deep_interest.sources.tables.declaration import Source

DECLARED = declare_impressions(click_time="clicked_at")


def shown(*rows):
    return "user,item,time,label,place,clicked_at\n" + "".join(f"{row}\n" for row in rows)


def test_a_click_has_its_time_and_no_click_is_never(tmp_path):
    write(
        tmp_path, impressions=shown("1,10,100,0,top,", "2,11,90000,1,side,90030", "2,10,90001,1,side,90001")
    )
    tables = read(tmp_path, **DECLARED)
    assert tables.shown["click_time"].tolist() == [NEVER, 90030, 90001]
    assert tables.shown["click_time"].dtype == "int64"
    validate(tables)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("2,11,90000,1,side,89999", "label 1, time 90000, clicked_at 89999"),
        ("2,11,90000,1,side,", "label 1, time 90000, clicked_at no value"),
        ("2,11,90000,0,side,90030", "label 0, time 90000, clicked_at 90030"),
        ("2,11,90000,1,side,soon", "label 1, time 90000, clicked_at soon"),
    ],
    ids=["before the impression", "missing", "without a click", "no time"],
)  # fmt: skip
def test_a_click_time_that_does_not_fit_is_one_error_or_skipped(tmp_path, row, found):
    write(tmp_path, impressions=shown("1,10,100,0,top,", row, "1,11,200,1,top,260", "1,12,210,1,top,260"))
    with pytest.raises(
        InputError,
        match=f"column clicked_at .*1 invalid value.*{found}.*the time of the click where the label is 1",
    ):
        read(tmp_path, **DECLARED)
    tables = read(tmp_path, skip=True, **DECLARED)
    assert tables.shown["time"].tolist() == [100, 200, 210]
    assert sum(tables.left_out.values()) == 1


def test_both_times_are_in_the_finer_unit(tmp_path):
    rows = ("1,10,100,0,top,", "2,11,90000,1,side,90030500")
    write(tmp_path, impressions=shown(*rows))
    tables = read(
        tmp_path, **declare_impressions(click_time={"column": "clicked_at", "unit": "milliseconds"})
    )
    assert tables.shown["time"].tolist() == [100_000, 90_000_000]
    assert tables.shown["click_time"].tolist() == [NEVER, 90_030_500]
    assert tables.behaviors["time"].tolist() == [50_000, 60_000]


def test_a_click_that_counts_as_a_behaviour_happens_at_its_own_time(tmp_path):
    write(tmp_path, impressions=shown("1,10,100,0,top,", "2,11,86000,1,side,90030"))
    tables = read(tmp_path, FEATURES, clicks_as_behaviors=True, **DECLARED)
    clicks = tables.behaviors[tables.behaviors["time"] > 60]
    assert clicks[["user", "item", "time", "day"]].to_numpy().tolist() == [[2, 11, 90030, 1]]


@pytest.mark.parametrize(
    "other", [{"sequence": "items", "label": "label"}, {"order": "file", "history": {"item": "h"}}]
)
def test_lists_and_rows_without_times_have_no_click_times(other):
    with pytest.raises(ValueError, match="click_time needs one impression per row with its time"):
        Source.model_validate({"impressions": {"files": "a.csv", "click_time": "t"} | other})
