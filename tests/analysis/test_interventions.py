"""Interventions find what reveals the label in logs with a planted leak, and nothing in a log without one."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from deep_interest.analysis.interventions import (
    BEHAVIORS,
    CONTEXT,
    ITEM,
    LATER,
    OWN,
    SHUFFLED,
    UNCHANGED,
    WITHOUT,
    intervene,
)
from deep_interest.commands.check import a_day_later
from deep_interest.logs.canonical import canonical
from deep_interest.logs.tables import CanonicalTables
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.samples.nodes import build_vocabularies, samples_from_impressions
from deep_interest.training.content import Data

DAY, USERS, ITEMS, CATEGORIES = 86_400, 120, 60, 6
pytestmark = pytest.mark.slow


def data_of(tables: CanonicalTables) -> Data:
    settings = DatasetParameters.model_validate(
        {
            "title": "Shop", "protocol": {"name": "by_day"},
            "features": {
                "item": ["item_id", "category", "total"], "behavior": ["item_id", "category", "dwell"], "profile": ["age"],
                "context": ["place", "seconds"], "buckets": {"total": 8, "dwell": 4, "seconds": 8},
            },
        }
    )  # fmt: skip
    ids = build_vocabularies(tables.behaviors, tables.items, tables.impressions)
    log, features, samples, _ = samples_from_impressions(
        tables.behaviors, tables.items, *ids, {}, settings, tables.users, tables.impressions
    )
    return Data(log, features, samples)


@cache
def log(leak: str = "") -> CanonicalTables:
    """Users who like one category for the whole time; ``leak`` says which source also reveals the label."""
    rng = np.random.default_rng(3)
    liked = rng.integers(CATEGORIES, size=USERS)

    def events(n: int) -> pd.DataFrame:
        user = rng.integers(USERS, size=n)
        item = np.where(
            rng.random(n) < 0.4,
            rng.integers(ITEMS // CATEGORIES, size=n) * CATEGORIES + liked[user],
            rng.integers(ITEMS, size=n),
        )
        return pd.DataFrame({"user": user, "item": item, "time": rng.integers(6 * DAY, size=n)})

    done, shown = events(3_000), events(6_000)
    category = shown["item"] % CATEGORIES
    chance = np.where(category == liked[shown["user"]], 0.6, 0.15)
    shown["label"] = (rng.random(len(shown)) < chance).astype(np.int8)
    shown["place"] = rng.choice(["top", "side"], len(shown))
    shown["seconds"] = rng.exponential(20, len(shown)) + (60 * shown["label"] if leak == "seconds" else 0)
    done["dwell"] = rng.exponential(30, len(done))
    if leak == "clicks":  # stamped a second before their impression
        clicks = shown.loc[shown["label"] == 1, ["user", "item", "time"]].assign(dwell=9.0)
        done = pd.concat([done, clicks.assign(time=clicks["time"] - 1)])
    items = pd.DataFrame(
        {"item": range(ITEMS), "category": np.arange(ITEMS) % CATEGORIES, "total": rng.random(ITEMS)}
    )
    users = pd.DataFrame({"user": range(USERS), "age": rng.integers(9, size=USERS)})
    return canonical(CanonicalTables(done, items, users, shown))


@cache
def findings(leak: str = ""):
    tables = log(leak)
    found = intervene(data_of(tables), later=data_of(a_day_later(tables)))
    return found, {of.name: of for of in found.outcomes}


def test_a_log_without_a_leak_gives_no_warning():
    found, outcomes = findings()
    assert found.split == "validation"
    assert found.warnings == ()
    assert list(outcomes) == [
        UNCHANGED, SHUFFLED, LATER, *(f"{WITHOUT}{name}" for name in (BEHAVIORS, OWN, ITEM, CONTEXT, "profile")),
    ]  # fmt: skip
    assert outcomes[UNCHANGED].gauc.difference > 0.6 and outcomes[UNCHANGED].loss is None
    assert abs(outcomes[SHUFFLED].gauc.difference - 0.5) < 0.06
    assert outcomes[f"{WITHOUT}{BEHAVIORS}"].loss.low > 0.03  # the history matters
    assert (
        outcomes[LATER].loss.difference < 0.5 * outcomes[f"{WITHOUT}{BEHAVIORS}"].loss.difference
    )  # not its last day


def test_item_features_that_only_say_which_behaviours_match_give_no_warning(monkeypatch):
    monkeypatch.setattr("deep_interest.analysis.interventions.MOST", 0.35)
    data = data_of(log())
    outcomes = {of.name: of for of in findings()[0].outcomes}
    gain = outcomes[UNCHANGED].gauc.difference - 0.5
    assert outcomes[f"{WITHOUT}{ITEM}"].loss.difference > 0.35 * gain  # the category of the history's items
    assert not [text for text in intervene(data).warnings if ITEM in text]


def test_a_column_that_is_known_after_the_click_is_named():
    found, outcomes = findings("seconds")
    assert outcomes[f"{WITHOUT}{CONTEXT}"].loss.low > 0.1
    (warning,) = [text for text in found.warnings if "context" in text]
    assert "without place, seconds" in warning and warning.endswith("is seconds known before the impression?")


def test_clicks_that_are_stamped_before_their_impression_are_found():
    found, outcomes = findings("clicks")
    assert outcomes[UNCHANGED].gauc.difference > 0.9
    assert outcomes[LATER].loss.low > 0.1
    assert any("are clicks among the behaviours" in text for text in found.warnings)
