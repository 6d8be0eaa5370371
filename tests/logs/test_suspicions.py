"""Each warning about ids, days, times and clocks of a log at, below and above its bound."""

import numpy as np
import pandas as pd
import pytest
import yaml
from support.log_warnings import (
    BY_DAY,
    DAY,
    HOUR,
    OTHER,
    START,
    YEAR,
    long_before,
    quiet,
    shown_at,
    warnings_of,
)

from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoded_log import encode_log
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.suspicions import suspicions, ticks_per_second
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import Vocabulary

SCALES = pytest.mark.parametrize("ticks", [1, 1_000, 1_000_000])


def test_a_log_without_impressions_or_without_fault_gives_no_warning():
    assert warnings_of(*quiet()) == []
    tables = canonical(CanonicalTables(quiet()[0], pd.DataFrame({"item": [OTHER]})))
    log = encode_log(
        tables, users=Vocabulary.fit(tables.behaviors["user"]), items=Vocabulary.fit(tables.items["item"])
    )
    assert list(suspicions(tables, log, BY_DAY, FeatureColumns(item=("item_id",)))) == []


@pytest.mark.parametrize(
    ("known", "expected"), [(31, []), (30, ["50.0% of the impressions have items without any feature"])]
)
def test_events_whose_items_have_no_features_are_warned_about(known, expected):
    behaviors, shown = quiet()
    kinds = [f"k{k % 7}" if k < known else None for k in range(60)]
    items = pd.DataFrame({"item": [*range(60), OTHER], "kind": [*kinds, "k"], "size": [*kinds, None]})
    warnings = warnings_of(behaviors, shown, items=items, item=("item_id", "kind", "size"))
    assert [text.split(":")[0] for text in warnings] == expected


def test_behaviours_without_impressions_are_compared_with_the_item_table():
    tables = canonical(CanonicalTables(quiet()[0], pd.DataFrame({"item": [OTHER], "kind": [None]})))
    log = encode_log(
        tables, users=Vocabulary.fit(tables.behaviors["user"]), items=Vocabulary.fit(tables.items["item"])
    )
    (warning,) = suspicions(tables, log, BY_DAY, FeatureColumns(item=("item_id", "kind")))
    assert warning.startswith("100.0% of the behaviors have items without any feature")


@pytest.mark.parametrize(
    ("ratings", "expected"),
    [
        ([3.0, 4.0], []),
        ([4.0, 5.0], ["every label is 1: the ratings are between 4 and 5"]),
        ([0.5, 3.5], ["every label is 0: the ratings are between 0.5 and 3.5"]),
    ],
)
def test_ratings_that_give_a_single_label_are_warned_about(ratings, expected):
    behaviors = quiet()[0]
    behaviors["rating"] = [ratings[k % 2] for k in range(len(behaviors))]
    tables = canonical(CanonicalTables(behaviors, pd.DataFrame({"item": behaviors["item"].unique()})))
    log = encode_log(
        tables, users=Vocabulary.fit(tables.behaviors["user"]), items=Vocabulary.fit(tables.items["item"])
    )
    for name, warnings in (("rated", expected), ("next_item", [])):
        protocol = ProtocolParameters(name=name)
        found = suspicions(tables, log, protocol, FeatureColumns(item=("item_id",)))
        assert [text.split(",")[0] for text in found] == warnings


@pytest.mark.parametrize(("with_history", "expected"), [(1, ["only 10.0% of the impressions"]), (2, [])])
def test_fewer_than_a_fifth_with_a_history_are_warned_about(with_history, expected):
    """A behaviour at the impression's own time is not before it."""
    shown = shown_at(START + np.arange(10) * DAY // 4)
    behaviors = shown[["user", "time"]].assign(item=OTHER)
    behaviors["time"] -= (np.arange(10) < with_history) * 1
    assert [text[:29] for text in warnings_of(behaviors[["user", "item", "time"]], shown)] == expected


@pytest.mark.parametrize("label", [0, 1])
def test_a_label_that_never_changes_is_warned_about(label):
    behaviors, shown = quiet()
    (warning,) = warnings_of(behaviors, shown.assign(label=label))
    assert warning.startswith(f"every label is {label}")


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ([0, 1, 2], []),
        ([0, 1, 3], ["1 days between the first and the last have no impressions: 1970-01-03"]),
        (
            [0, 1, 7],
            [
                "5 days between the first and the last have no impressions: "
                "1970-01-03, 1970-01-04, 1970-01-05, 1970-01-06, 1970-01-07"
            ],
        ),
        (
            [0, 7, 8],
            [
                "6 days between the first and the last have no impressions: "
                "1970-01-02, 1970-01-03, 1970-01-04, 1970-01-05, 1970-01-06 …"
            ],
        ),
        ([0, 1, 10_000], []),  # a mistake of another kind, with too many days to list
    ],
)
def test_days_without_an_impression_are_counted_and_the_first_five_named(days, expected):
    behaviors, shown = quiet()
    assert warnings_of(behaviors, shown.assign(day=np.repeat(days, 20))) == expected


def test_days_without_an_impression_are_looked_for_in_up_to_ten_thousand_days():
    behaviors, shown = quiet()
    (warning,) = warnings_of(behaviors, shown.assign(day=np.repeat([0, 1, 9_999], 20)))
    assert warning.startswith("9997 days")


@SCALES
@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (20 * YEAR, 30 * YEAR, []),  # 1990 to 2000, in years of 366 days
        (20 * YEAR - 1, 30 * YEAR, ["behaviors are between the years 1990 and 2000"]),
        (30 * YEAR, 130 * YEAR, []),  # to 2100
        (30 * YEAR, 130 * YEAR + 1, ["behaviors are between the years 2000 and 2100"]),
        (-YEAR, 30 * YEAR, ["behaviors are between the years 1969 and 2000"]),
    ],
)
def test_years_before_1990_or_after_2100_are_warned_about(ticks, first, last, expected):
    shown = shown_at((30 * YEAR + np.arange(4) * DAY) * ticks)
    behaviors = [(user, OTHER, first * ticks) for user in range(4)] + [(0, OTHER, last * ticks)]
    found = [text.split(":")[0] for text in warnings_of(behaviors, shown)]
    assert [text for text in found if "years" in text] == expected


@pytest.mark.parametrize(("latest", "warned"), [(20 * YEAR, True), (20 * YEAR - 1, False)])
def test_times_that_all_end_before_1990_count_from_a_day_of_their_own(latest, warned):
    shown = shown_at([latest - 3 * DAY, latest - 2 * DAY, latest - DAY, latest])
    found = warnings_of([(user, OTHER, 0) for user in range(4)], shown)
    assert any("behaviors are between the years 1970 and 1970" in text for text in found) == warned
    assert any("impressions are between the years 1990 and 1990" in text for text in found) == warned


def clicks_of(offsets, *, extra_clicks=0, ticks=1):
    """A click of a user of its own for each offset, whose behaviour is ``offset`` seconds from it; as many others."""
    n = len(offsets) + extra_clicks
    times = (START + 40 * DAY + np.arange(2 * n) * DAY // 8) * ticks
    shown = pd.DataFrame(
        {"user": range(2 * n), "item": range(2 * n), "time": times, "label": [1] * n + [0] * n}
    )
    behaviors = pd.DataFrame({
        "user": range(len(offsets)), "item": range(len(offsets)), "time": times[: len(offsets)] + np.array(offsets) * ticks,
    })  # fmt: skip
    return pd.concat([long_before(shown, ticks), behaviors]), shown


def clock_warnings(offsets, **options):
    return [text for text in warnings_of(*clicks_of(offsets, **options)) if "clicks are" in text]


@SCALES
@pytest.mark.parametrize(
    ("offset", "hours"),
    [
        (HOUR, "1 h later"),
        (-HOUR, "1 h earlier"),
        (14 * HOUR, "14 h later"),
        (-14 * HOUR, "14 h earlier"),
        (15 * HOUR, None),
        (0, None),
        (HOUR + 60, "1 h later"),
        (2 * HOUR - 60, "2 h later"),
        (HOUR + 66, None),
        (60, None),
    ],
)
def test_clicks_up_to_14_whole_hours_from_their_behaviours_are_warned_about(ticks, offset, hours):
    found = clock_warnings([offset] * 20, ticks=ticks)
    assert [text.split(":")[0] for text in found] == (
        [f"20 of 20 clicks are also behaviours {hours}"] if hours else []
    )


@pytest.mark.parametrize(
    ("offsets", "extra_clicks", "count"),
    [
        ([HOUR] * 10, 0, "10 of 10"),
        ([HOUR] * 9, 0, None),
        ([HOUR] * 10, 10, "10 of 20"),
        ([HOUR] * 10, 11, None),
        ([HOUR] * 10 + [2 * HOUR] * 10, 1, None),
        ([HOUR] * 11 + [2 * HOUR] * 9, 0, "11 of 20"),
        ([HOUR] * 4 + [2 * HOUR] * 10, 4, "10 of 18"),
    ],
)
def test_a_shifted_clock_takes_ten_clicks_and_half_of_them(offsets, extra_clicks, count):
    found = clock_warnings(offsets, extra_clicks=extra_clicks)
    assert [text.split(" clicks")[0] for text in found] == ([count] if count else [])


def own_history_warnings(clicked, passed, *, offset=-20 * HOUR, ticks=1):
    """Of 20 clicks and 20 others, so many have a behaviour with their item ``offset`` seconds from them."""
    n = 20
    times = (START + 40 * DAY + np.random.default_rng(0).permutation(2 * n) * DAY // 8) * ticks
    shown = pd.DataFrame(
        {"user": range(2 * n), "item": range(2 * n), "time": times, "label": [1] * n + [0] * n}
    )
    rows = [*range(clicked), *range(n, n + passed)]
    behaviors = pd.DataFrame({"user": rows, "item": rows, "time": times[rows] + offset * ticks})
    found = warnings_of(pd.concat([long_before(shown, ticks), behaviors]), shown)
    return [text.split(", have a behaviour")[0] for text in found if "of the clicked impressions" in text]


@pytest.mark.parametrize(
    ("clicked", "passed", "shares"),
    [
        (10, 4, ("50.0%", "20.0%")),
        (9, 4, None),
        (10, 5, None),  # others have half as many
        (20, 9, ("100.0%", "45.0%")),
        (20, 10, None),
    ],
)
def test_clicks_in_their_own_histories_are_distinguished_from_repeated_behaviours(clicked, passed, shares):
    expected = shares and (f"{shares[0]} of the clicked impressions, but only {shares[1]} of the others")
    assert own_history_warnings(clicked, passed) == ([expected] if expected else [])


@SCALES
@pytest.mark.parametrize(
    ("offset", "warned"),
    [(-24 * HOUR, True), (-24 * HOUR - 1, False), (-1, True), (0, False), (1, False)],
)
def test_the_day_before_a_click_ends_just_before_it(ticks, offset, warned):
    assert len(own_history_warnings(20, 0, offset=offset, ticks=ticks)) == warned


def test_a_shifted_clock_gives_one_warning_though_clicks_are_in_their_own_histories():
    (warning,) = warnings_of(*clicks_of([-HOUR] * 20))
    assert "1 h earlier" in warning


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([[0, 1], [1, 0], [0, 1]], 3),
        ([[0, 1], [1, 1], [0, 0]], 1),
        ([[1, 1], [0, 0], [1, 1]], 0),
    ],
)
def test_impressions_with_both_labels_are_counted(labels, expected):
    behaviors, shown = quiet()
    twice = pd.concat([shown.head(3).assign(label=[pair[k] for pair in labels]) for k in range(2)])
    found = warnings_of(behaviors, pd.concat([twice, shown.tail(57)]), repeated=True)
    wanted = f"{expected} impressions occur twice, clicked and not clicked"
    assert found == ([wanted] if expected else [])


@pytest.mark.parametrize(
    ("latest", "ticks"),
    [(10**11 - 1, 1), (10**11, 1_000), (10**14 - 1, 1_000), (10**14, 1_000_000)],
)
def test_the_unit_of_times_is_inferred_from_their_size(latest, ticks):
    assert ticks_per_second(pd.Series([0, latest, 5])) == ticks


def clicks_as_behaviors(share):
    """Behaviours during the impressions, of which a share are clicks, with a dwell time."""
    before, shown = quiet()
    clicks = shown[shown["label"] == 1].drop(columns="label")
    others = clicks.assign(item=OTHER)
    kept = round(share * len(clicks))
    return pd.concat([before, clicks[:kept], others[kept:]]).assign(dwell="short"), shown


@pytest.mark.parametrize(
    ("share", "features", "expected"),
    [
        (0.5, {"behavior": ("item_id", "dwell")}, True),
        (0.4, {"behavior": ("item_id", "dwell")}, False),
        (0.5, {"behavior": ("item_id", "hour", "gap")}, False),  # known at once
        (0.5, {"behavior": ("item_id",), "sequences": {"late": {"behavior": ("item_id", "dwell"), "delay": 600}}}, False),
    ],
)  # fmt: skip
def test_columns_of_clicks_may_be_known_too_late(share, features, expected):
    behaviors, shown = clicks_as_behaviors(share)
    texts = [text for text in warnings_of(behaviors, shown, **features) if "known by then" in text]
    assert len(texts) == expected
    if expected:
        assert texts[0].startswith("features.behavior: dwell describe clicks of these impressions")
        advice = texts[0].partition("such as features.sequences: ")[2]
        FeatureColumns(behavior=("item_id",), sequences=yaml.safe_load(advice))  # the advice works
