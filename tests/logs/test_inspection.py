"""What `deep-interest check` finds in a log."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.contracts import validate
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.inspection import inspect_log, report_lines, unknown_lines
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables

DAY, HOUR = 86_400, 3_600
START = 19_000 * DAY
BY_DAY = ProtocolParameters(name="by_day")


def shop(
    rows: int = 4_000, *, users: int = 200, items: int = 60, days: int = 6, seed: int = 0
) -> CanonicalTables:
    """Impressions at random, a third of them clicked, the clicks among the behaviours; no feature is informative."""
    rng = np.random.default_rng(seed)
    shown = pd.DataFrame({
        "user": rng.integers(0, users, rows), "item": rng.integers(0, items, rows), "time": START + rng.integers(0, days * DAY, rows),
        "label": (rng.random(rows) < 0.3).astype(np.int8), "place": rng.integers(0, 3, rows),
    })  # fmt: skip
    shown["day"] = (shown["time"] // DAY).astype(np.int32)
    clicked = shown.loc[shown["label"] == 1, ["user", "item", "time", "day"]]
    catalogue = pd.DataFrame({"item": np.arange(items), "price": rng.normal(size=items)})
    people = pd.DataFrame({"user": np.arange(users), "age": rng.integers(18, 80, users)})
    return CanonicalTables(clicked, catalogue, people, shown)


def changed(tables: CanonicalTables, table: str, **columns: object) -> CanonicalTables:
    return CanonicalTables(**{**vars(tables), table: getattr(tables, table).assign(**columns)})


def inspected(tables: CanonicalTables, protocol: ProtocolParameters = BY_DAY):
    names = {name for name in tables.impressions if name not in ("user", "item", "time", "label", "day")}
    features = FeatureColumns(
        item=("item_id", *(name for name in tables.items if name != "item")),
        profile=tuple(name for name in tables.users if name != "user"), context=tuple(sorted(names)),
    )  # fmt: skip
    tables = canonical(tables)
    validate(tables)
    return inspect_log(tables, protocol, features)


def test_a_log_without_fault_gives_no_warning():
    found = inspected(shop())
    assert found.warnings == ()
    assert found.counts["impressions"] == 4_000
    assert list(found.days["split"]) == ["train"] * 4 + ["validation", "test"]
    assert found.days["rows"].sum() == sum(found.history_lengths.values()) == 4_000
    assert found.period[0].startswith("2022-01-08")


def test_the_figures_are_those_of_a_log_counted_by_hand():
    behaviors = pd.DataFrame(
        {"user": [1, 1, 2], "item": [1, 2, 1], "time": [START, START + 5, START + 2 * DAY]}
    )
    shown = pd.DataFrame({
        "user": [1, 1, 2, 3], "item": [1, 2, 1, 3], "time": START + np.array([5, DAY, 2 * DAY, 2 * DAY + 1]),
        "label": np.array([1, 0, 1, 0], np.int8),
    })  # fmt: skip
    found = inspect_log(
        canonical(CanonicalTables(behaviors, pd.DataFrame({"item": [1, 2, 3]}), None, shown)),
        BY_DAY,
        FeatureColumns(item=("item_id",)),
    )
    assert found.days.to_dict("list") == {
        "day": ["2022-01-08", "2022-01-09", "2022-01-10"], "split": ["train", "validation", "test"], "rows": [1, 1, 2], "ctr": [1.0, 0.0, 0.5],
    }  # fmt: skip
    assert found.shares == {
        "click-through rate": 0.5, "impressions with a history": 0.5,
        "test impressions of users unknown to training": 1.0, "test impressions of items unknown to training": 0.5,
    }  # fmt: skip
    assert {name: count for name, count in found.history_lengths.items() if count} == {"0": 2, "1-4": 2}
    lines = "\n".join(report_lines(found))
    assert "from 2022-01-08 00:00:00 to 2022-01-10 00:00:01 (UTC)" in lines
    assert "2022-01-10       test    2 0.5000" in lines


def leaks():
    tables = shop()
    shown = tables.impressions
    rng = np.random.default_rng(1)
    order = shown.sort_values(["user", "time"])
    following = order.groupby("user")["label"].shift(-1).reindex(shown.index).fillna(0).astype(int)
    clicks = tables.items["item"].map(shown.groupby("item")["label"].sum()).fillna(0)
    later = shown["time"] + np.where(shown["label"] == 1, 60, -60)
    yield (
        "dwell",
        changed(
            tables, "impressions", dwell=np.where(shown["label"] == 1, 30, 0) + rng.integers(0, 5, len(shown))
        ),
        "impressions.dwell alone predicts the label",
    )
    spent_time = np.where(shown["label"] == 1, 20_000, 0) + rng.integers(0, 15_000, len(shown))
    yield (
        "text",
        changed(tables, "impressions", play_ms=spent_time.astype(str)),
        "impressions.play_ms alone predicts the label",
    )
    yield (
        "next",
        changed(tables, "impressions", next=following),
        "impressions.next alone predicts whether the user's next impression is clicked",
    )
    yield (
        "clicks",
        changed(tables, "items", clicks=clicks),
        "items.clicks follows the clicks of the whole period",
    )
    yield (
        "bought_at",
        changed(tables, "impressions", bought_at=later),
        "impressions.bought_at looks like a time",
    )
    written = pd.to_datetime(later, unit="s").dt.strftime("%Y-%m-%dT%H:%M:%S")
    yield "bought", changed(tables, "impressions", bought=written), "impressions.bought looks like a time"
    spent = tables.users["user"].map(shown.groupby("user")["label"].sum()).fillna(0) * 9.5
    yield "spent", changed(tables, "users", spent=spent), "users.spent follows the clicks of the whole period"


@pytest.mark.parametrize(("tables", "warning"), [row[1:] for row in leaks()], ids=[row[0] for row in leaks()])
def test_a_planted_leak_or_future_feature_is_warned_about(tables, warning):
    warnings = inspected(tables).warnings
    assert any(text.startswith(warning) for text in warnings), warnings


def test_a_count_up_to_the_training_days_end_is_no_leak():
    tables = shop()
    early = tables.impressions[tables.impressions["day"] < 19_004]
    clicks = tables.items["item"].map(early.groupby("item")["label"].sum()).fillna(0)
    assert inspected(changed(tables, "items", clicks=clicks)).warnings == ()


@pytest.mark.parametrize("hours", [-8, -1, 2])
def test_behaviours_whole_hours_off_are_warned_about(hours):
    tables = shop()
    moved = changed(tables, "behaviors", time=tables.behaviors["time"] + hours * HOUR)
    (warning,) = [text for text in inspected(moved).warnings if "time zone" in text]
    assert f"{abs(hours)} h {'later' if hours > 0 else 'earlier'}" in warning


@pytest.mark.parametrize("offset", [-1, -60, -600, -15 * HOUR, -24 * HOUR, -19_800])
def test_clicks_that_are_in_their_own_histories_are_warned_about(offset):
    tables = shop()
    moved = changed(tables, "behaviors", time=tables.behaviors["time"] + offset)
    (warning,) = inspected(moved).warnings
    assert "have a behaviour with the same item within the day before" in warning


def test_behaviours_of_something_seen_over_and_over_are_no_click_of_the_same_impression():
    tables = shop()
    every = tables.impressions[["user", "item", "time", "day"]].assign(time=lambda t: t["time"] - 600)
    assert inspected(CanonicalTables(every, tables.items, tables.users, tables.impressions)).warnings == ()


@pytest.mark.parametrize(
    ("behaviors", "impressions", "warning"),
    [
        (1, 1_000, "behaviors are between the years 1970 and 1970"),  # one in seconds, read as milliseconds
        (1_000, 1, "impressions are between the years 1970 and 1970"),
        (1_000, -1_000, "impressions are between the years"),
    ],
)
def test_times_of_another_unit_are_warned_about_and_written_as_they_are_read(behaviors, impressions, warning):
    tables = shop()
    tables = changed(tables, "behaviors", time=tables.behaviors["time"] * behaviors)
    tables = changed(tables, "impressions", time=tables.impressions["time"] * impressions)
    found = inspected(tables)
    assert any(text.startswith(warning) for text in found.warnings), found.warnings
    assert found.period[1].startswith("2022-01-13")


def test_times_that_count_from_a_day_of_their_own_are_no_mistake():
    tables = shop()
    tables = changed(tables, "behaviors", time=tables.behaviors["time"] - START)
    assert inspected(changed(tables, "impressions", time=tables.impressions["time"] - START)).warnings == ()


@pytest.mark.slow
def test_ids_that_do_not_meet_empty_days_and_contradictions_are_warned_about():
    tables = shop()
    strangers = changed(tables, "behaviors", user=tables.behaviors["user"] + 10_000)
    assert any(
        "of the impressions have an earlier behaviour" in text for text in inspected(strangers).warnings
    )
    gap = tables.impressions[tables.impressions["day"] != 19_002]
    assert any(
        "1 days between the first and the last have no impressions: 2022-01-10" in text
        for text in inspected(CanonicalTables(tables.behaviors, tables.items, tables.users, gap)).warnings
    )
    both = pd.concat([tables.impressions, tables.impressions.head(3).assign(label=lambda t: 1 - t["label"])])
    assert any(
        text.startswith("3 impressions occur twice")
        for text in inspected(CanonicalTables(tables.behaviors, tables.items, tables.users, both)).warnings
    )
    clicked = changed(tables, "impressions", label=np.int8(1))
    assert any("every label is 1" in text for text in inspected(clicked).warnings)


def test_validation_names_every_column_that_fails():
    tables = shop()
    broken = changed(changed(tables, "impressions", label=np.int8(2)), "behaviors", time=1.5)
    with pytest.raises(InputError) as error:
        validate(broken)
    assert "impressions.label: 4,000 values" in str(error.value)
    assert "behaviors.time" in str(error.value)


@pytest.mark.parametrize(
    ("probability", "valid"), [(0.0, True), (0.5, True), (1.0, True), (1.1, False), (-0.1, False)]
)
def test_true_probabilities_are_from_0_to_1(probability, valid):
    tables = changed(shop(), "impressions", true_probability=probability)
    if valid:
        validate(tables)
        return
    with pytest.raises(InputError, match=r"impressions\.true_probability"):
        validate(tables)


def test_validation_needs_neither_days_nor_impressions():
    tables = shop()
    without_days = CanonicalTables(
        tables.behaviors.drop(columns="day", errors="ignore"), tables.items, tables.users,
        tables.impressions.drop(columns="day"),
    )  # fmt: skip
    validate(without_days)
    repeated = pd.concat([tables.items, tables.items.head(1)])
    with pytest.raises(InputError, match=r"items\.item"):
        validate(CanonicalTables(tables.behaviors, repeated))


def test_the_check_counts_histories_with_behaviours_of_the_samples_own_time():
    """u's day 2 has two behaviours: whichever comes second has the other in its history, as its negative has: 2 of 6 samples."""
    rows = pd.DataFrame(
        {"user": "u", "item": [1, 2, 3, 4], "time": [START, START + DAY, START + DAY, START + 2 * DAY]}
    )
    tables = canonical(CanonicalTables(rows, pd.DataFrame({"item": range(1, 9)}), None, None))
    share = "samples whose history has behaviours of their own time"
    for ties, expected in (("before", 2 / 6), ("exclude", 0.0)):
        protocol = ProtocolParameters(name="next_item", ties=ties, negative_pool="catalogue")
        assert inspect_log(tables, protocol, FeatureColumns(item=("item_id",))).shares == {share: expected}


def test_context_values_of_later_days_only_give_a_warning_with_field_values_and_share():
    """Six days from a Saturday on: the test set's Thursday and the validation set's Wednesday are new, 'ad' comes once more."""
    tables = shop()
    day = tables.impressions["day"].to_numpy() - START // DAY
    place = np.where(day == 5, np.where(np.arange(len(day)) % 4 == 0, "ad", "top"), "top")
    share = (place[day == 5] == "ad").mean()
    found = inspected(changed(tables, "impressions", weekday=day, place=place))
    start = [warning.split(";")[0] for warning in found.warnings]
    assert start == [
        f"features.context: place: {share:.1%} of the test rows have a value that does not occur on any training day (ad)",
        "features.context: weekday: every validation row has a value that does not occur on any training day (4)",
        "features.context: weekday: every test row has a value that does not occur on any training day (5)",
    ]
    assert "train on more days, or remove weekday" in found.warnings[-1]


def test_the_unknown_shares_are_shown_by_field_and_split():
    summary = pd.DataFrame({
        "split": ["train", "validation", "test", "all", "left out"], "unknown_items": [0.0, 0.5, 0.076, 0.1, np.nan],
        "unknown_item_id": [0.0, 0.25, 0.076, 0.1, np.nan],
    })  # fmt: skip
    title, table = unknown_lines(summary)
    assert title == "rows whose value is missing or in no training sample"
    assert [line.split() for line in table.splitlines()] == [
        ["train", "validation", "test"], ["items", "0.0%", "50.0%", "7.6%"], ["item_id", "0.0%", "25.0%", "7.6%"],
    ]  # fmt: skip
