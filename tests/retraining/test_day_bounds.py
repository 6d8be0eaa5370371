"""Each bound of a day at, below and above it: one day's files against records that say what is usual."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.days import DAY, FEATURES, day_name, day_tables, write_tables

from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoding import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.retraining.checks import BadDayError, check_days, day_statistics
from deep_interest.retraining.days import ReaderConfig
from deep_interest.retraining.parameters import DayBounds
from deep_interest.sources.tables.declaration import Source

FILES = ("behaviors", "items", "users", "impressions")
READING = ReaderConfig(
    Source.model_validate({name: {"files": f"{name}.parquet"} for name in FILES}), FeatureColumns.model_validate(FEATURES)
)  # fmt: skip
EARLIER = [day_name(number) for number in range(4)]
TODAY = day_name(4)


@pytest.fixture(scope="module")
def today(tmp_path_factory):
    """A folder with one day of 100 impressions, 25 of them clicked, and 100 behaviours; 30 of them lack a placement."""
    folder = tmp_path_factory.mktemp("days")
    tables = day_tables(4, users=20, per_user=5)
    tables["impressions"]["label"] = np.int8(np.arange(100) % 4 == 0)
    tables["impressions"]["placement"] = (
        tables["impressions"]["placement"].astype("Int64").mask(np.arange(100) < 30)
    )
    write_tables(folder / TODAY, tables)
    return folder


def findings(folder, *, days=EARLIER, usual=None, bounds=None, vocabularies=None, per_day=None):
    """What is wrong with the day, where every earlier day has the ``usual`` figures, or ``per_day`` those of its own."""
    figures = {
        "impressions": 100.0,
        "behaviors": 100.0,
        "ctr": 0.25,
        "missing.placement": 0.3,
        "unknown.placement": 0.0,
    }
    records = {
        day: {"hash": day, "figures": figures | (usual or {}) | (per_day or {}).get(day, {})} for day in days
    }
    try:
        check_days(folder, [TODAY], records, READING, DayBounds(**bounds or {}), vocabularies)
    except BadDayError as error:
        return [line.strip().removeprefix(f"{TODAY}: ") for line in str(error).splitlines()[1:-1]]
    return []


@pytest.mark.parametrize(
    ("usual", "bounds", "expected"),
    [
        ({}, {}, []),
        ({"impressions": 200}, {"volume": (0.5, 2)}, []),
        ({"impressions": 202}, {"volume": (0.5, 2)}, ["impressions 100, expected 101 to 404 (the 4 days before: 202)"]),
        ({"impressions": 50}, {"volume": (0.5, 2)}, []),
        ({"impressions": 49}, {"volume": (0.5, 2)}, ["impressions 100, expected 24 to 98 (the 4 days before: 49)"]),
        ({"behaviors": 200}, {"volume": (0.5, 2)}, []),
        ({"behaviors": 2020}, {"volume": (0.5, 2)}, ["behaviors 100, expected 1,010 to 4,040 (the 4 days before: 2,020)"]),
        ({"ctr": 0.5}, {"ctr": (0.5, 2)}, []),
        ({"ctr": 0.502}, {"ctr": (0.5, 2)}, ["ctr 0.2500, expected 0.2510 to 1.0040 (the 4 days before: 0.5020)"]),
        ({"ctr": 0.125}, {"ctr": (0.5, 2)}, []),
        ({"ctr": 0.124}, {"ctr": (0.5, 2)}, ["ctr 0.2500, expected 0.0620 to 0.2480 (the 4 days before: 0.1240)"]),
        ({"missing.placement": 0.05}, {"missing_rise": 0.25}, []),
        (
            {"missing.placement": 0.05}, {"missing_rise": 0.24},
            ["placement: 30.0% missing, the 4 days before 5.0%; at most 24.0% more (days.missing_rise)"],
        ),
        ({}, {"minimum_impressions": 100}, []),
        ({}, {"minimum_impressions": 101}, ["100 impressions, expected 101 (days.minimum_impressions)"]),
    ],
)  # fmt: skip
def test_a_day_is_refused_beyond_a_bound_and_not_at_it(today, usual, bounds, expected):
    assert findings(today, usual=usual, bounds=bounds) == expected


@pytest.mark.parametrize(("rise", "refused"), [(0.15, False), (0.14, True)])
def test_values_unknown_to_the_champion_may_rise_by_a_share(today, rise, refused):
    """20 of the 100 impressions have a placement that the champion does not know; the 30 without one do not count."""
    known = FieldVocabularies()
    known.learn("placement", pd.Series([0, 1]))
    usual = {"unknown.placement": 0.05}
    found = findings(today, usual=usual, bounds={"unknown_rise": rise}, vocabularies=known)
    wanted = "placement: 20.0% unknown, the 4 days before 5.0%; at most 14.0% more (days.unknown_rise)"
    assert found == ([wanted] if refused else [])


@pytest.mark.parametrize(
    ("days", "refused"),
    [(EARLIER[:2], False), (EARLIER[:3], True), ([*EARLIER[:2], day_name(9)], False)],
    ids=["two days before", "three days before", "one of three is later"],
)
def test_what_is_usual_takes_three_days_before(today, days, refused):
    found = findings(today, days=days, usual={"impressions": 1_000})
    assert bool(found) == refused
    assert all(text.endswith("(the 3 days before: 1,000)") for text in found)


def test_what_is_usual_is_the_median_of_the_trailing_days(today):
    volumes = {day: {"impressions": n} for day, n in zip(EARLIER, (1, 1_000, 5_000, 900), strict=True)}
    (found,) = findings(today, per_day=volumes, bounds={"trailing_days": 3})
    assert found == "impressions 100, expected 300 to 3,000 (the 3 days before: 1,000)"
    assert findings(today, per_day=volumes, bounds={"trailing_days": 4, "volume": (0.1, 3)}) == []


def test_a_figure_that_fewer_than_three_days_have_is_not_compared(today):
    records = {
        EARLIER[0]: {},
        EARLIER[1]: {},
        EARLIER[2]: {"missing.brand": 0.0},
        EARLIER[3]: {"missing.brand": 0.0},
    }
    assert findings(today, per_day=records) == []


def measured(**tables):
    """The figures of a day with two users, with some of its tables replaced."""
    start = 19_000 * DAY
    whole = {
        "behaviors": pd.DataFrame({"user": ["a", "b"], "item": [1, 2], "time": [start, start + 5]}),
        "impressions": pd.DataFrame({
            "user": ["a", "a", "b", "b"], "item": [1, 2, 3, 4], "time": start + np.arange(4), "label": [1, 0, 0, 0], "placement": [0, 1, None, 9],
        }),
        "items": pd.DataFrame({"item": [1, 2, 3, 4], "category": [1, 1, None, None], "brand": ["x", None, None, "z"]}),
        "users": pd.DataFrame({"user": ["a", "b"], "plan": ["free", None]}),
    } | tables  # fmt: skip
    for name in ("behaviors", "impressions"):
        whole[name] = whole[name].assign(day=(whole[name]["time"] // DAY).astype(np.int32))
    return canonical(CanonicalTables(**whole))


def figures_of(tables, vocabularies=None):
    return day_statistics(tables, "2022-01-08", READING.features, vocabularies)


def test_every_figure_of_a_day_by_hand():
    """The item 3 and the user b have no values but their ids, so their rows are not counted as missing."""
    assert figures_of(measured()) == {
        "impressions": 4, "behaviors": 2, "ctr": 0.25, "repeated": 0, "other_days": 0, "later": 0, "missing.item_id": 0,
        "missing.placement": 0.25, "missing.category": 0.333333, "missing.brand": 0.333333, "missing.plan": 0,
    }  # fmt: skip


def test_figures_of_what_the_champion_does_not_know():
    known = FieldVocabularies()
    for name, values in {"item_id": [1, 2], "placement": [0, 1], "brand": ["x"], "plan": ["free"]}.items():
        known.learn(name, pd.Series(values))
    figures = figures_of(measured(), known)
    assert {name: value for name, value in figures.items() if name.startswith("unknown")} == {
        "unknown.item_id": 0.5, "unknown.placement": 0.25, "unknown.brand": 0.333333, "unknown.plan": 0,
    }  # fmt: skip
    assert set(known.fields["placement"].vocabulary.values) == {0, 1}


def test_rows_of_another_day_and_repeated_impressions_are_counted():
    tables = measured()
    shown, done = tables.impressions, tables.behaviors
    late = replace(
        tables, impressions=shown.assign(day=shown["day"] + [0, 1, -1, 0]), behaviors=done.assign(day=done["day"] + [1, -1]),
        left_out={"duplicate impressions (same user)": 1, "duplicate behaviors": 7},
    )  # fmt: skip
    figures = figures_of(late)
    assert (figures["other_days"], figures["later"], figures["repeated"]) == (2, 1, 0.2)


@pytest.mark.parametrize(("bound", "refused"), [(0.5, False), (0.49, True)])
def test_half_of_the_impressions_may_be_repeated_if_the_bound_allows_it(tmp_path, bound, refused):
    tables = day_tables(4, users=20, per_user=5)
    tables["impressions"] = pd.concat([tables["impressions"]] * 2)
    write_tables(tmp_path / TODAY, tables)
    found = findings(tmp_path, days=[], bounds={"repeated": bound})
    assert found == (
        ["50.0% of the impressions are repeated, at most 49.0% (days.repeated)"] if refused else []
    )
