"""Rows that come and go, on hand-made days: who has a row, what a warm start keeps, and what both versions score."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.days import day_name

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.retraining import fitting
from deep_interest.retraining.days import day_number
from deep_interest.retraining.fitting import fit_challenger, held_out_scores
from deep_interest.retraining.kept_rows import keep_rows, rows_summary
from deep_interest.retraining.parameters import RetrainingParameters, RowRule, ScoringParameters
from deep_interest.retraining.parity_gate import CurrentVersion, _write_snapshot
from deep_interest.retraining.rows import (
    Before,
    assign_rows,
    check_days_exist,
    check_rules,
    vocabularies_with,
    with_rows,
)
from deep_interest.retraining.scoring import encode_request, score_with
from deep_interest.retraining.window import encode_window
from deep_interest.serving.ranker import Ranker
from deep_interest.serving.ranking import RankingRequest
from deep_interest.serving.version import VersionArtifacts, read_version, write_version
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import Experiment

FEATURES = FeatureColumns(item=("item_id", "category"), profile=("user_id",))
RULES = {"item_id": RowRule(min_count=3, max_age_days=2)}
TIMES_OF_X = (0, 1, 2, 6, 6, 7)  # days on which the item x is shown, once for each
LAST = 9


def shop(seed=0):
    """Ten days of six users: the items a to e are shown and clicked every day, x on a few, and y from day 4 on."""
    rng, rows = np.random.default_rng(seed), []
    for day in range(LAST + 1):
        items = [*"abcde", *["x"] * TIMES_OF_X.count(day), *(["y"] if day >= 4 else [])]
        for number, item in enumerate(items):
            for user in range(6) if item in "abcde" else [number % 6]:
                rows.append((f"u{user}", item, day * 86_400 + number * 100 + user, rng.random() < 0.4))
    shown = pd.DataFrame(rows, columns=["user", "item", "time", "label"])
    shown["time"] += day_number(day_name(0)) * 86_400
    shown["label"] = shown["label"].astype(np.int8)
    shown["day"] = (shown["time"] // 86_400).astype(np.int32)
    clicked = shown[(shown["label"] == 1) & (shown["item"] != "x")].drop(columns="label")
    items = pd.DataFrame({"item": list("abcdexy"), "category": ["k0", "k1", "k0", "k1", "k0", "k1", "k0"]})
    users = pd.DataFrame({"user": [f"u{k}" for k in range(6)]})
    return canonical(CanonicalTables(clicked, items, users, shown))


TABLES = shop()


def window(train, held_out, vocabularies):
    return encode_window(
        TABLES, train=[day_name(day) for day in train], held_out=day_name(held_out), protocol=ProtocolParameters(name="by_day"),
        features=FEATURES, vocabularies=vocabularies,
    )  # fmt: skip


def experiment(folder, model="lr", options=None):
    recipe = Recipe(
        training={"batch_size": 16, "epochs": 1, "learning_rate": 0.05},
        model={"embedding_dim": 4, "hidden": (8,)},
    )
    run = RunParameters(device="cpu", processes=1, threads=1, workspace=str(folder))
    return Experiment("shop", model, RowOptions(options or {}), recipe, (1,), run)


def night(folder, held_out, champion=None, *, train=None, rules=RULES, model="lr", options=None, **how):
    """Train on the day before the held-out one, from the champion if there is one, and return a version."""
    vocabularies = FieldVocabularies(dict(champion.vocabularies.fields) if champion else {})
    data = window(train or [held_out - 1], held_out, vocabularies)
    before = Before(champion.fitted.schema.tables, day_name(champion.held_out)) if champion else None
    rows = assign_rows(TABLES, FEATURES, rules, vocabularies, held_out=day_name(held_out), before=before)
    fitted = fit_challenger(
        experiment(folder, model, options), data, overrides=how.pop("overrides", {}), seed=1, state_file=folder / f"{held_out}.pt",
        parent=champion.fitted.as_parent() if champion else None, rows=rows, **how,
    )  # fmt: skip
    return SimpleNamespace(
        fitted=fitted, vocabularies=vocabularies_with(vocabularies, rows), rows=rows, data=data, held_out=held_out, model=model,
    )  # fmt: skip


def ids(version, field="item_id"):
    return version.vocabularies.fields[field].vocabulary.values.tolist()


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """A warm start every night from the third day on, each from the one before."""
    folder, found = tmp_path_factory.mktemp("nights"), {2: None}
    found[2] = night(folder, 2, train=[0, 1])
    for held_out in range(3, LAST + 1):
        found[held_out] = night(folder, held_out, found[held_out - 1])
    return found


@pytest.mark.slow
def test_an_id_is_admitted_at_its_third_event_and_evicted_after_two_days_without_one(nights):
    """x: one event each on days 0 to 2, none on days 3 to 5, two on day 6, one on day 7. y: from day 4 on every day, some clicked."""
    has_x = {held_out: "x" in ids(version) for held_out, version in nights.items()}
    assert has_x == {2: False, 3: True, 4: True, 5: False, 6: False, 7: False, 8: True, 9: True}
    of_x = {h: (v.rows["item_id"].evicted, v.rows["item_id"].waiting) for h, v in nights.items()}
    assert (of_x[2], of_x[3], of_x[4], of_x[5]) == ((0, 1), (0, 0), (0, 0), (1, 1))  # y waits on the fifth
    assert (of_x[7], of_x[8]) == ((0, 1), (0, 0))  # x, back with two events, then with three
    assert [ids(nights[h]) for h in (2, 4, 5)] == [[*"abcde"], [*"abcdex"], [*"abcde"]]
    for version in nights.values():
        size = version.fitted.schema.tables["item_id"]
        assert size == len(ids(version)) + 1 == len(version.fitted.weights["weights.item_item_id.weight"])


def weights_by_id(version, table="weights.item_item_id.weight"):
    return dict(zip(ids(version), version.fitted.weights[table][1:], strict=True))


@pytest.mark.parametrize("held_out", [4, 5])
def test_a_warm_start_keeps_weights_and_moments_of_the_ids_that_stay_bit_for_bit(nights, held_out):
    """Selected by id, through the stored vocabularies: ids of the champion that the challenger still has, in their order."""
    champion, challenger = nights[held_out - 1], nights[held_out]
    kept = keep_rows(champion.fitted.as_parent(), challenger.rows, "lr")
    stay = [ids(champion).index(item) + 1 for item in ids(challenger) if item in ids(champion)]
    assert len(stay) == {4: 6, 5: 5}[held_out]
    for table in ("item", "behavior"):
        name = f"weights.{table}_item_id.weight"
        assert torch.equal(kept.weights[name], champion.fitted.weights[name][[0, *stay]])
    for name in ("weights.item_category.weight", "weights.profile_user_id.weight", "bias"):
        assert torch.equal(kept.weights[name], champion.fitted.weights[name])
    names = [name for name in champion.fitted.weights if name.startswith("weights.")]
    moments = champion.fitted.optimizer["moments"]
    assert kept.optimizer["steps"] == champion.fitted.optimizer["steps"]
    for name, olds, news in zip(["network", *names], moments, kept.optimizer["moments"], strict=True):
        rows = [0, *stay] if name.endswith("item_id.weight") else slice(None)
        assert all(torch.equal(new, old[rows]) for old, new in zip(olds, news, strict=True))
        assert any(bool(old.any()) for old in olds)


def test_an_id_without_an_event_in_the_training_day_has_its_old_row_after_the_fit(nights):
    """x has no event on day 3, and nobody clicked it: its weight and its moments on the fourth day are those of the third."""
    third, fourth = nights[3], nights[4]
    table = list(third.fitted.weights).index("weights.item_item_id.weight")
    assert next(iter(third.fitted.weights)) == "bias"  # so the tables are numbered from 1, like their moments
    rows = [ids(version).index("x") + 1 for version in (third, fourth)]
    for old, new in zip(
        (third.fitted.weights["weights.item_item_id.weight"], *third.fitted.optimizer["moments"][table]),
        (fourth.fitted.weights["weights.item_item_id.weight"], *fourth.fitted.optimizer["moments"][table]),
        strict=True,
    ):
        assert torch.equal(old[rows[0]], new[rows[1]])
        assert bool(old[rows[0]].any())


def test_an_id_that_comes_back_starts_like_a_new_one(nights, tmp_path):
    """The champion of the third day has x; a warm start from it that holds out day 8 gives x a new row, whose moments are 0."""
    champion = nights[3]
    still = night(tmp_path, 8, champion, overrides={"learning_rate": 1e-30, "optimizer": "adam"})
    assert ids(still)[-2:] == ["x", "y"]
    assert (still.rows["item_id"].evicted, still.rows["item_id"].admitted) == (1, 2)
    old, new = weights_by_id(champion), weights_by_id(still)
    assert all(torch.equal(new[item], old[item]) for item in "abcde")
    assert bool(old["x"].any())
    assert new["x"].abs().item() < 1e-20  # LR starts at 0


def of_held_out(version):
    """Impressions of the held-out day, and the behaviours before each."""
    shown = TABLES.shown
    shown = shown[shown["day"] == day_number(day_name(version.held_out))]
    done = TABLES.behaviors
    for row in shown.itertuples():
        yield row, done[(done["user"] == row.user) & (done["time"] < row.time)]["item"].tolist()


def expected_scores(version, held_out):
    """LR by hand: rows looked up by id in the vocabularies of a version."""
    category = dict(zip(TABLES.items["item"], TABLES.items["category"], strict=True))
    weights = {name: value.double().numpy() for name, value in version.fitted.weights.items()}

    def weight(group, field, value):
        values = ids(version, field)
        row = values.index(value) + 1 if value in values else 0
        return weights[f"weights.{group}_{field}.weight"][row, 0]

    def of_item(group, item):
        return weight(group, "item_id", item) + weight(group, "category", category[item])

    logits = [
        weights["bias"]
        + of_item("item", row.item)
        + weight("profile", "user_id", row.user)
        + (np.mean([of_item("behavior", item) for item in history]) if history else 0.0)
        for row, history in of_held_out(held_out)
    ]
    return 1 / (1 + np.exp(-np.array(logits)))


@pytest.mark.parametrize("held_out", [5, 7, 8])
def test_champion_and_challenger_score_the_same_day_with_their_own_rows(nights, tmp_path, held_out):
    """x is in the champion's tables only, in none, or in the challenger's only."""
    champion, challenger = nights[held_out - 1], nights[held_out]
    assert [("x" in ids(version)) for version in (champion, challenger)] == {
        5: [True, False],
        7: [False, False],
        8: [False, True],
    }[held_out]
    for version, data in (
        (champion, challenger.data),
        (challenger, with_rows(challenger.data, challenger.rows)),
    ):
        scores = held_out_scores(
            version.fitted.model("lr"), version.fitted.schema, data, experiment(tmp_path), version.fitted.training
        )  # fmt: skip
        np.testing.assert_allclose(scores, expected_scores(version, challenger), atol=1e-6)


@pytest.mark.parametrize("model", ["din", "dien"])
def test_a_map_of_codes_is_the_same_as_the_vocabularies_of_the_version(tmp_path, model):
    """The reference: the same days, coded by the version's vocabularies alone."""
    champion = night(tmp_path, 3, train=[0, 1, 2], model=model)
    challenger = night(tmp_path, 5, champion, model=model)
    for version, data in (
        (champion, challenger.data),
        (challenger, with_rows(challenger.data, challenger.rows)),
    ):
        frozen = FieldVocabularies(version.vocabularies.fields, frozen=True)
        own = window([4], 5, frozen)
        assert own.features.schema == version.fitted.schema
        scores = [
            held_out_scores(
                version.fitted.model(model), version.fitted.schema, each, experiment(tmp_path, model), version.fitted.training
            )
            for each in (data, own)
        ]  # fmt: skip
        np.testing.assert_array_equal(*scores)


def test_a_teacher_sees_the_rows_that_the_student_has_lost(nights, tmp_path, monkeypatch):
    class StopError(Exception):
        pass

    seen = {}

    def stop(**arguments):
        seen.update(arguments)
        raise StopError

    monkeypatch.setattr(fitting, "Fit", stop)
    champion = nights[4]  # x has the row that y has in the student
    with pytest.raises(StopError):
        night(tmp_path, 7, champion, teacher_weight=0.25)
    shown = SimpleNamespace(held_out=6)  # the training day
    clicked = np.array([row.label for row, _ in of_held_out(shown)])
    assert "x" in {row.item for row, _ in of_held_out(shown)}
    expected = 0.75 * clicked + 0.25 * expected_scores(champion, shown)
    np.testing.assert_allclose(seen["train"].labels.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("model", ["base", "din"])
def test_a_rule_that_excludes_no_id_changes_no_parameter(tmp_path, model):
    every = {name: RowRule() for name in ("item_id", "category", "user_id")}
    found = []
    for name, rules in (("with", every), ("without", {})):
        folder = tmp_path / name
        first = night(folder, 2, train=[0, 1], rules=rules, model=model)
        found.append(night(folder, 5, first, train=[3, 4], rules=rules, model=model, teacher_weight=0.5))
    ruled, plain = (version.fitted for version in found)
    assert ruled.schema == plain.schema
    assert all(torch.equal(ruled.weights[name], plain.weights[name]) for name in plain.weights)
    for olds, news in zip(plain.optimizer["moments"], ruled.optimizer["moments"], strict=True):
        assert all(torch.equal(old, new) for old, new in zip(olds, news, strict=True))


def test_users_and_other_columns_of_items_can_have_a_rule():
    """u0 to u5 have as many events; a category has those of its items."""
    vocabularies = FieldVocabularies()
    window([0], 1, vocabularies)
    shown, done = (
        table[table["day"] == day_number(day_name(0))] for table in (TABLES.shown, TABLES.behaviors)
    )
    of_user = pd.concat([shown["user"], done["user"]]).value_counts()
    kinds = TABLES.items.set_index("item")["category"]
    of_kind = kinds[pd.concat([shown["item"], done["item"]])].value_counts()
    rules = {
        "user_id": RowRule(min_count=int(of_user.iloc[2])),
        "category": RowRule(min_count=int(of_kind["k0"])),
    }
    rows = assign_rows(TABLES, FEATURES, rules, vocabularies, held_out=day_name(1), before=None)
    known = vocabularies_with(vocabularies, rows).fields
    assert sorted(known["user_id"].vocabulary.values) == sorted(of_user[of_user >= of_user.iloc[2]].index)
    assert of_kind["k0"] > of_kind["k1"]
    assert known["category"].vocabulary.values.tolist() == ["k0"]
    assert rows["category"].waiting == 1


def test_rows_that_stay_come_first_and_vocabularies_are_in_the_order_of_the_rows():
    """p is seen on days 0 and 5, q every day; the champion, held out on day 1, has p in row 1 and q in row 2."""
    begin = day_number(day_name(0))
    events = pd.DataFrame([("q", day) for day in range(6)] + [("p", 0), ("p", 5)], columns=["item", "day"])
    events = events.assign(day=events["day"] + begin, user="u")
    tables = CanonicalTables(events, pd.DataFrame({"item": ["p", "q"]}), None, events.head(0))
    vocabularies = FieldVocabularies()
    vocabularies.learn("item_id", pd.Series(["p", "q"]))
    rows = assign_rows(
        tables, FeatureColumns(item=("item_id",)), {"item_id": RowRule(max_age_days=4)}, vocabularies, held_out=day_name(6),
        before=Before({"item_id": 3}, day_name(1)),
    )  # fmt: skip
    found = rows["item_id"]
    assert (found.rows.tolist(), found.kept.tolist()) == ([0, 2, 1], [0, 2])
    assert (found.evicted, found.admitted, found.waiting, found.size) == (1, 1, 0, 3)
    assert vocabularies_with(vocabularies, rows).fields["item_id"].vocabulary.values.tolist() == ["q", "p"]


class Nightly:
    """The reference: bookkeeping night by night, with one counter for each id."""

    def __init__(self, rule):
        self.rule, self.count, self.last, self.row, self.rows = rule, {}, {}, {}, 0

    def run(self, events, today):
        """Count the events of yesterday, evict, and admit; ``row`` numbers every row that was ever given."""
        for item in events:
            self.count[item] = self.count.get(item, 0) + 1
            self.last[item] = today - 1
        for item, last in self.last.items():
            if self.rule.max_age_days is not None and last < today - self.rule.max_age_days:
                self.count[item] = 0
                self.row.pop(item, None)
            elif self.count[item] >= self.rule.min_count and item not in self.row:
                self.rows += 1
                self.row[item] = self.rows


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    days=st.lists(st.lists(st.integers(1, 4), max_size=5), min_size=2, max_size=9),
    promoted=st.lists(st.booleans(), min_size=9, max_size=9),
    min_count=st.integers(1, 4),
    max_age_days=st.none() | st.integers(1, 4),
)
def test_rows_are_those_of_counters_kept_night_by_night(days, promoted, min_count, max_age_days):
    """Whichever nights promote their version: the ids with a row, and which of them keep the champion's."""
    rule, begin = RowRule(min_count=min_count, max_age_days=max_age_days), day_number(day_name(0))
    events = pd.DataFrame([(item, begin + day) for day, of in enumerate(days) for item in of], columns=["item", "day"])  # fmt: skip
    tables = CanonicalTables(
        events.iloc[::2], pd.DataFrame({"item": range(1, 5)}), None, events.iloc[1::2].assign(user="u")
    )
    tables.behaviors.insert(0, "user", "u")
    nightly, champion = Nightly(rule), None
    for today in range(1, len(days) + 1):
        nightly.run(days[today - 1], today)
        vocabularies = FieldVocabularies(dict(champion[0].fields) if champion else {})
        vocabularies.learn("item_id", events["item"][events["day"] < begin + today])
        before = champion and Before({"item_id": 1 + len(champion[1])}, champion[2])
        rows = assign_rows(
            tables, FeatureColumns(item=("item_id",)), {"item_id": rule}, vocabularies, held_out=day_name(today), before=before
        )["item_id"]  # fmt: skip
        known = vocabularies_with(vocabularies, {"item_id": rows})
        found = known.fields["item_id"].vocabulary.values.tolist()
        assert sorted(found) == sorted(nightly.row)
        given_rows = [nightly.row[item] for item in found]
        old = champion[1] if champion else []
        assert [old[row - 1] for row in rows.kept[1:]] == given_rows[: len(rows.kept) - 1]
        assert not set(old) & set(given_rows[len(rows.kept) - 1 :])
        if promoted[today - 1]:
            champion = (known, given_rows, day_name(today))


@pytest.fixture(scope="module")
def stored(nights, tmp_path_factory):
    """The version of the fifth day, which does not know x and y, in a folder."""
    version = nights[5]
    fitted = version.fitted
    manifest = {
        "model": "lr", "config": fitted.config, "training": fitted.training, "schema": fitted.schema.model_dump(mode="json"),
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("version") / "v5"
    write_version(folder, VersionArtifacts(manifest, fitted.weights, fitted.optimizer, version.vocabularies))
    return read_version(folder)


def test_service_and_batch_scoring_treat_an_id_without_a_row_as_an_item_of_its_category(
    nights, stored, tmp_path
):
    scoring = ScoringParameters(top_k=None)
    inputs = encode_request(TABLES, None, None, FEATURES, scoring, stored)
    scores = pd.concat(score_with(stored, inputs, scoring, RunParameters(device="cpu", threads=1)).blocks)
    ctr = scores.set_index(["user", "item"])["ctr"]
    ranker = Ranker.load(_write_snapshot(tmp_path / "snapshot", CurrentVersion(stored, TABLES, FEATURES)))
    items = list("abcdexy")
    for user in ("u0", "u3"):
        features = ranker.features(RankingRequest(user, items))
        served = ranker.score(features)
        np.testing.assert_allclose(served, ctr[user][items], atol=1e-6)
        assert features.candidates["item_id"].tolist() == [1, 2, 3, 4, 5, 0, 0]
        assert features.candidates["category"].tolist() == [1, 2, 1, 2, 1, 2, 1]
    weights = nights[5].fitted.weights
    logit = [torch.special.logit(torch.tensor(ctr["u0", item]).double()).item() for item in "xb"]
    own, unknown = (weights["weights.item_item_id.weight"][row, 0].item() for row in (2, 0))
    assert logit[0] - logit[1] == pytest.approx(unknown - own, abs=1e-5)  # both are of the category k1


def test_a_fit_that_dies_resumes_to_the_same_rows_and_parameters(nights, tmp_path, monkeypatch):
    class KilledError(Exception):
        pass

    champion, whole_step, steps = nights[4], fitting.Fit.train_step, []

    def die(self, rows):
        steps.append(rows)
        if len(steps) == 2:
            raise KilledError
        return whole_step(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(fitting.Fit, "train_step", die)
        with pytest.raises(KilledError):
            night(tmp_path, 5, champion)
    resumed, expected = night(tmp_path, 5, champion), nights[5]
    assert ids(resumed) == ids(expected)
    assert resumed.fitted.identity == expected.fitted.identity
    assert all(
        torch.equal(value, expected.fitted.weights[name]) for name, value in resumed.fitted.weights.items()
    )


def test_the_summary_counts_rows_and_megabytes(nights):
    """LR has two tables of one column for the ids of items: each row is 2 × 4 bytes, and as much for each of Adam's moments."""
    version = nights[5]
    assert rows_summary(version.fitted, "lr", version.rows) == {
        "item_id": {
            "champion": 6, "kept": 5, "evicted": 1, "admitted": 0, "rows": 5, "waiting": 1,
            "megabytes_champion": pytest.approx(6 * 24e-6), "megabytes": pytest.approx(5 * 24e-6),
        }
    }  # fmt: skip
    assert rows_summary(version.fitted, "lr", {}) == {}


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"item": ["item_id", "price"], "buckets": {"price": 3}}, "price"),
        ({"item": ["item_id", "tags"], "multi_hot": {"tags": "|"}}, "tags"),
        ({"item": ["item_id"], "context": ["place"]}, "place"),
        ({"item": ["item_id"]}, "user_id"),
    ],
)
def test_a_rule_for_another_kind_of_field_names_the_possible_ones(columns, field):
    message = f"retraining.rows: {field} is not a field of items or users with one category per row; use one of item_id"
    with pytest.raises(InputError, match=message):
        check_rules({"item_id": RowRule(), field: RowRule()}, FeatureColumns.model_validate(columns))


def test_a_rule_that_is_no_rule_is_an_error():
    for rule in ({"min_count": 0}, {"max_age_days": 0}, {"minimum": 3}):
        with pytest.raises(ValidationError, match=r"rows\.item_id"):
            RetrainingParameters.model_validate({"rows": {"item_id": rule}})
    rules = {"item_id": RowRule(max_age_days=8)}
    message = r"max_age_days of item_id is 8, but retraining\.history_days is 7, .* set max_age_days to at most 7, or raise history_days"
    with pytest.raises(InputError, match=message):
        check_rules(rules, FEATURES, history_days=7)
    check_rules(rules, FEATURES, history_days=8)
    check_rules(rules, FEATURES)


def test_a_missing_day_within_the_age_is_an_error():
    rules = {"item_id": RowRule(max_age_days=3), "user_id": RowRule(max_age_days=2)}
    used, available = [day_name(day) for day in range(6)], [day_name(day) for day in (2, 4, 5, 6)]
    message = f"max_age_days is 3, but the folders of {day_name(3)} are missing, which earlier runs have used"
    with pytest.raises(InputError, match=message):
        check_days_exist(rules, available, used, day_name(6))
    check_days_exist({"user_id": RowRule(max_age_days=2)}, available, used, day_name(6))
    check_days_exist({}, available, used, day_name(6))


def test_nade_with_pairs_of_items_needs_a_full_window(tmp_path):
    features = FEATURES.model_copy(update={"behavior": ("item_id", "category", "weekday")})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.FEATURES", features)
        first = night(
            tmp_path, 7, train=range(7), model="nade"
        )  # all seven weekdays, so that no night adds one
        with pytest.raises(InputError, match=r"nade has a row for each pair of item_id .* full_window"):
            night(tmp_path, LAST, first, model="nade")
