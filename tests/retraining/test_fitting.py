"""Warm starts on truth: what is kept, what is new, and what a teacher teaches."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from support.days import FEATURES, day_name, day_tables

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoded_log import encode_log
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.standardised import decode
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.retraining.fitting import extend_parameters, fit_challenger, held_out_scores
from deep_interest.retraining.parameters import ScoringParameters
from deep_interest.retraining.scoring import encode_request, score_with
from deep_interest.retraining.window import encode_window
from deep_interest.serving.registry import Registry, VersionArtifacts
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import Experiment

RECIPE = Recipe(
    training={"batch_size": 64, "epochs": 1, "learning_rate": 0.01},
    model={"embedding_dim": 4, "hidden": (8,)},
)


def experiment(tmp_path, model="base", options=None, **training):
    run = RunParameters(device="cpu", processes=1, threads=1, workspace=str(tmp_path))
    recipe = RECIPE.model_copy(update={"training": RECIPE.training | training})
    return Experiment("shop", model, RowOptions(options or {}), recipe, (1,), run)


def log(days):
    """The first days as one log; an item has a seal of its category and one of the day it was listed, a place is one of two values."""
    tables = [day_tables(number, users=30) for number in range(days)]
    for number, one in enumerate(tables):
        one["behaviors"]["action"] = f"action {number}"
        one["items"]["seals"] = [f"of {kind} | day {number}" for kind in one["items"]["category"]]
        one["impressions"]["place"] = np.where(
            one["impressions"]["placement"] == 0, f"day {number},top", "top"
        )
    whole = {name: pd.concat([one[name] for one in tables]) for name in tables[0]}
    for name in ("behaviors", "impressions"):
        whole[name] = whole[name].assign(day=(whole[name]["time"] // 86_400).astype(np.int32))
    for name, key in (("items", "item"), ("users", "user")):
        whole[name] = whole[name].drop_duplicates(key).reset_index(drop=True)
    return canonical(CanonicalTables(**whole))


MULTI_HOT = FEATURES | {
    "item": [*FEATURES["item"], "seals"], "context": [*FEATURES["context"], "place"], "multi_hot": {"seals": "|", "place": ","},
}  # fmt: skip


def window(train, held_out, vocabularies, features=FEATURES):
    return encode_window(
        log(held_out + 1), train=[day_name(number) for number in train], held_out=day_name(held_out),
        protocol=ProtocolParameters(name="by_day"), features=FeatureColumns.model_validate(features),
        vocabularies=vocabularies,
    )  # fmt: skip


def fit(
    tmp_path, data, *, parent=None, teacher_weight=0.0, model="base", options=None, name="fit.pt", **training
):
    return fit_challenger(
        experiment(tmp_path, model, options, **training), data, overrides={}, seed=1, state_file=tmp_path / name, parent=parent,
        teacher_weight=teacher_weight,
    )  # fmt: skip


@pytest.fixture
def champion(tmp_path):
    """A model of the first two days, judged on the third, and its vocabularies."""
    vocabularies = FieldVocabularies()
    data = window([0, 1], 2, vocabularies)
    return fit(tmp_path, data, name="champion.pt"), data, vocabularies


def test_the_held_out_day_teaches_no_vocabulary(champion):
    _, data, vocabularies = champion
    item_ids = set(vocabularies.fields["item_id"].vocabulary.values)
    new = set(day_tables(2)["items"]["item"])
    assert len(new) == 2
    assert not new & item_ids
    assert set(data.samples["split"]) == {"train", "test"}


@pytest.mark.parametrize("model", ["base", "din", "dien", "lr", "pnn", "bst"])
def test_the_champion_scores_as_ever_when_the_vocabularies_have_grown(tmp_path, model):
    """The reference: the champion's own vocabularies, which the later log has not touched."""
    own = FieldVocabularies()
    fitted = fit(tmp_path, window([0, 1], 2, own), model=model)
    frozen = FieldVocabularies(dict(own.fields))
    grown_data = window([0, 1, 2, 3], 4, own)
    assert own.fields["item_id"].vocabulary.values.size > frozen.fields["item_id"].vocabulary.values.size
    scores = held_out_scores(
        fitted.model(model), fitted.schema, grown_data, experiment(tmp_path, model), fitted.training
    )
    size = len(frozen.fields["item_id"].vocabulary)
    test = grown_data.samples["split"] == "test"
    unknown = grown_data.features.items["item_id"][grown_data.samples["item"][test]] >= size
    assert unknown.any()
    masked = replace(
        grown_data,
        features=replace(
            grown_data.features, schema=fitted.schema,
            items={k: np.where(v < fitted.schema.tables[k], v, 0) for k, v in grown_data.features.items.items()},
        ),
        log=replace(
            grown_data.log,
            fields={k: np.where(v < fitted.schema.tables[k], v, 0) for k, v in grown_data.log.fields.items()},
        ),
    )  # fmt: skip
    expected = held_out_scores(
        fitted.model(model), fitted.schema, masked, experiment(tmp_path, model), fitted.training
    )
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("model", ["din", "lr"])
def test_the_champion_does_not_see_the_values_that_cells_have_learnt_since(tmp_path, model):
    """The reference: the same days in the champion's vocabularies, which know no later value."""
    own = FieldVocabularies()
    fitted = fit(tmp_path, window([0, 1], 2, own, MULTI_HOT), model=model)
    frozen = FieldVocabularies(dict(own.fields), frozen=True)
    later, as_it_was = (window([0, 1, 2, 3], 4, known, MULTI_HOT) for known in (own, frozen))
    assert later.features.schema.tables["seals"] == fitted.schema.tables["seals"] + 2  # days 2 and 3
    assert later.features.schema.tables["place"] == fitted.schema.tables["place"] + 2
    scores = [
        held_out_scores(
            fitted.model(model), fitted.schema, data, experiment(tmp_path, model), fitted.training
        )
        for data in (later, as_it_was)
    ]
    np.testing.assert_array_equal(*scores)


@pytest.mark.slow
def test_pairs_are_scored_by_the_values_of_a_cell_that_the_champion_knows(tmp_path):
    known, features = FieldVocabularies(), FeatureColumns.model_validate(MULTI_HOT)
    fitted = fit(tmp_path, window([0, 1], 2, known, MULTI_HOT), model="din")
    registry = Registry(tmp_path / "registry")
    manifest = {
        "model": "din", "config": fitted.config, "training": fitted.training, "schema": fitted.schema.model_dump(mode="json"),
        "fields": dict.fromkeys(known.fields),
    }  # fmt: skip
    registry.add("v1", VersionArtifacts(manifest, fitted.weights, fitted.optimizer, known))
    champion, scoring, ctr = registry.load("v1"), ScoringParameters(top_k=None), {}
    for place in ("day 1,top", " top, day 1,top", "top", "top,day 9", "day 9"):
        users = pd.DataFrame({"user": ["u1", "u2"], "placement": 1, "place": place})
        coded = encode_request(log(3), users, None, features, scoring, champion)
        scores = pd.concat(
            score_with(champion, coded, scoring, RunParameters(device="cpu", threads=1)).blocks
        )
        ctr[place] = scores.sort_values(["user", "item"])["ctr"].to_numpy()
    np.testing.assert_array_equal(ctr["day 1,top"], ctr[" top, day 1,top"])
    np.testing.assert_array_equal(ctr["top"], ctr["top,day 9"])
    assert (ctr["top"] != ctr["day 1,top"]).all()
    assert (ctr["top"] != ctr["day 9"]).all()


def test_retraining_and_scoring_keep_the_mean_and_the_deviation_of_the_first_version(tmp_path):
    """Later days have other prices and placements: their codes are those of the first days' mean and deviation."""
    features = FEATURES | {
        "item": ["item_id", "category", "price"], "profile": ["plan"], "standardised": ["price", "placement"]
    }  # fmt: skip

    def priced(days, shift=0.0):
        tables = log(days)
        tables.items["price"] = np.arange(len(tables.items)) % 7 + shift
        tables.impressions["placement"] = tables.impressions["placement"] * 10.0 + shift
        return tables

    def window_of(tables, train, held_out, vocabularies):
        return encode_window(
            tables, train=[day_name(day) for day in train], held_out=day_name(held_out), protocol=ProtocolParameters(name="by_day"),
            features=FeatureColumns.model_validate(features), vocabularies=vocabularies,
        )  # fmt: skip

    known = FieldVocabularies()
    fitted = fit(tmp_path, window_of(priced(3), [0, 1], 2, known), model="din", name="first.pt")
    first = {name: known.fields[name].standardisation for name in ("price", "placement")}
    assert all(each.std > 0 for each in first.values())
    registry = Registry(tmp_path / "registry")
    manifest = {
        "model": "din", "config": fitted.config, "training": fitted.training, "schema": fitted.schema.model_dump(mode="json"),
    }  # fmt: skip
    registry.add("v1", VersionArtifacts(manifest, fitted.weights, fitted.optimizer, known))
    champion = registry.load("v1")
    later = champion.vocabularies()
    shifted = priced(4, shift=2.0)
    data = window_of(shifted, [1, 2], 3, later)
    assert {name: later.fields[name].standardisation for name in first} == first
    prices = shifted.items.set_index("item")["price"]
    item = encode_log(
        shifted, users=Vocabulary.fit(shifted.behaviors["user"]), items=Vocabulary.fit(shifted.items["item"])
    )
    expected = (prices[item.items.values].to_numpy() - first["price"].mean) / first["price"].std
    np.testing.assert_allclose(decode(data.features.items["price"])[1:], expected, atol=1e-3)
    warm = fit(tmp_path, data, parent=fitted.as_parent(), model="din", name="warm.pt")
    assert warm.weights["embeddings.tables.price.weight"].shape == (2, 4)

    users = pd.DataFrame({"user": ["u1", "u2"], "placement": [2.0, 22.0]})
    columns = FeatureColumns.model_validate(features)
    coded = encode_request(shifted, users, None, columns, ScoringParameters(top_k=None), champion)
    np.testing.assert_array_equal(
        np.sort(coded.features.items["price"]), np.sort(data.features.items["price"])
    )
    placements = (users["placement"] - first["placement"].mean) / first["placement"].std
    np.testing.assert_allclose(decode(coded.request.context["placement"]), placements, atol=1e-3)
    scores = pd.concat(
        score_with(
            champion, coded, ScoringParameters(top_k=None), RunParameters(device="cpu", threads=1)
        ).blocks
    )
    assert scores["ctr"].between(0, 1).all()
    with pytest.raises(
        InputError, match=r"features\.standardised: placement: .*'top'; all its values must be numbers"
    ):
        encode_request(shifted, users.assign(placement="top"), None, columns, ScoringParameters(), champion)


def test_a_warm_start_keeps_every_parameter_and_gives_new_ids_rows_of_their_own(tmp_path, champion):
    fitted, _, vocabularies = champion
    data = window([2], 3, vocabularies)
    still = fit(tmp_path, data, parent=fitted.as_parent(), learning_rate=1e-30)
    fresh = fit(tmp_path, data, learning_rate=1e-30, name="fresh.pt")
    rows = len(fitted.weights["embeddings.tables.item_id.weight"])
    for name, before in fitted.weights.items():
        after, first = (
            still.weights[name],
            int(".tables." in name),
        )  # the unknown's row is the mean of the new window's
        torch.testing.assert_close(after[first : len(before)], before[first:], rtol=0, atol=0)
    item_ids = still.weights["embeddings.tables.item_id.weight"]
    assert len(item_ids) == rows + 2
    torch.testing.assert_close(
        item_ids[rows:], fresh.weights["embeddings.tables.item_id.weight"][rows:], rtol=0, atol=1e-12
    )


def test_a_warm_start_with_match_counts_gives_a_new_action_weights_of_its_own(tmp_path):
    features = FEATURES | {"behavior": ["item_id", "category", "action"]}
    options = {"match_counts": True}
    vocabularies = FieldVocabularies()
    first = fit(tmp_path, window([0, 1], 2, vocabularies, features), options=options)
    grown = window([2, 3], 4, vocabularies, features)
    after = fit(tmp_path, grown, parent=first.as_parent(), options=options, name="second.pt").weights
    name = "match_counts.log_weights.action.weight"
    assert len(after[name]) > len(first.weights[name])


def test_a_warm_start_keeps_the_rows_of_ids_that_its_window_lacks(tmp_path, champion):
    """Eight samples hold fewer items than days 0 and 1 did: theirs stay, and the unknown's row is the mean of the others."""
    fitted, _, vocabularies = champion
    data = window([2], 3, vocabularies)
    few = data.samples.drop(data.samples.index[data.samples["split"] == "train"][8:]).reset_index(drop=True)
    data = replace(data, samples=few)
    name = "embeddings.tables.item_id.weight"
    before = fitted.weights[name]
    item_ids = fit(tmp_path, data, parent=fitted.as_parent(), name="warm.pt").weights[name]
    train = data.samples[data.samples["split"] == "train"]
    held = set(data.features.items["item_id"][train["item"]].tolist())
    for user, end in zip(train["user"], train["history_end"], strict=True):
        held |= set(data.log.history(user, end, max_len=100)["item_id"].tolist())
    absent = sorted(set(range(1, len(before))) - held)
    assert absent
    assert torch.equal(item_ids[absent], before[absent])
    assert not torch.equal(item_ids[0], before[0])
    torch.testing.assert_close(item_ids[0], item_ids[sorted(held)].mean(0), rtol=1e-5, atol=1e-7)


def test_a_warm_start_goes_on_with_the_optimisers_moments(tmp_path, champion):
    """After one more step on n rows, Adam's step count is the champion's plus that of the new fit."""
    fitted, _, vocabularies = champion
    data = window([2], 3, vocabularies)
    warm = fit(tmp_path, data, parent=fitted.as_parent())
    steps = -(-int((data.samples["split"] == "train").sum()) // 64)
    assert warm.optimizer["steps"][0] == fitted.optimizer["steps"][0] + steps
    for (_, before), (_, after) in zip(fitted.optimizer["moments"], warm.optimizer["moments"], strict=True):
        kept = before * 0.999**steps  # the second moment is never less than what is left of the champion's
        assert bool((after[: len(before)] >= kept * (1 - 1e-5)).all())


def test_a_finished_fit_is_loaded_with_its_optimiser(tmp_path, champion):
    fitted, data, _ = champion
    again = fit(tmp_path, data, name="champion.pt")
    assert again.identity == fitted.identity
    for old, new in zip(fitted.optimizer["moments"], again.optimizer["moments"], strict=True):
        torch.testing.assert_close(old, new, rtol=0, atol=0)
    assert again.optimizer["steps"] == fitted.optimizer["steps"]


def test_distilling_is_the_weighted_sum_of_both_cross_entropies():
    logits = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64)
    labels, teacher = torch.tensor([1.0, 0, 1]).double(), torch.tensor([0.7, 0.2, 0.4]).double()
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    mixed = loss(logits, torch.lerp(labels, teacher, 0.3))
    torch.testing.assert_close(mixed, 0.7 * loss(logits, labels) + 0.3 * loss(logits, teacher))


def test_a_student_of_the_teacher_alone_almost_stays_the_teacher(tmp_path, champion):
    """At weight near 1 the champion is at its own optimum: it moves much less than by the labels."""
    fitted, _, vocabularies = champion
    data = window([2], 3, vocabularies)
    held_out = {
        weight: held_out_scores(
            student.model("base"), student.schema, data, experiment(tmp_path), student.training
        )
        for weight in (0.0, 0.999)
        if (
            student := fit(
                tmp_path,
                data,
                parent=fitted.as_parent(),
                teacher_weight=weight,
                name=f"{weight}.pt",
                optimizer="sgd",
            )
        )
    }
    teacher = held_out_scores(
        fitted.model("base"), fitted.schema, data, experiment(tmp_path), fitted.training
    )
    moved = {weight: np.abs(scores - teacher).mean() for weight, scores in held_out.items()}
    assert moved[0.999] < 0.2 * moved[0.0]


def test_a_champion_of_other_options_is_named():
    with pytest.raises(InputError, match=r"mlp: the champion has \(3, 2\), the configured model \(3, 5\)"):
        extend_parameters({"mlp": torch.zeros(3, 2)}, {"mlp": torch.zeros(3, 5)}, extensible=["mlp"])


@pytest.mark.parametrize("positions", [4, 8])
def test_only_what_has_a_row_for_each_id_grows(tmp_path, champion, positions):
    """More positions are another option, however much their parameter looks like a table that has extend_parameters."""
    _, data, vocabularies = champion
    before = fit(tmp_path, data, model="din", name="before.pt", options={"positions": 4})
    with (
        nullcontext()
        if positions == 4
        else pytest.raises(InputError, match=r"positions: the champion has \(5,")
    ):
        fit(
            tmp_path,
            window([2], 3, vocabularies),
            parent=before.as_parent(),
            model="din",
            options={"positions": positions},
        )


def test_crossed_features_cannot_go_on(tmp_path, champion):
    fitted, _, vocabularies = champion
    with pytest.raises(InputError, match="wide_deep: the codes of its crossed features"):
        fit(tmp_path, window([2], 3, vocabularies), parent=fitted.as_parent(), model="wide_deep")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["din_light", "dien_light"])
def test_a_version_of_a_light_net_scores_without_its_booster_and_a_warm_start_continues_both(tmp_path, model):
    known = FieldVocabularies()
    options = {"aux_weight": 0.5} if model == "dien_light" else {}
    recipe = RECIPE.model_copy(update={"model": RECIPE.model | options})

    def fit_light(data, name, **how):
        light = replace(experiment(tmp_path, model), recipe=recipe)
        return fit_challenger(light, data, overrides={}, seed=1, state_file=tmp_path / name, **how)

    fitted = fit_light(window([0, 1], 2, known), "first.pt")
    boosters = [name for name in fitted.weights if name.startswith("booster.")]
    assert len(boosters) > 5
    registry = Registry(tmp_path / "registry")
    manifest = {
        "model": model, "config": fitted.config, "training": fitted.training, "schema": fitted.schema.model_dump(mode="json"),
        "fields": dict.fromkeys(known.fields),
    }  # fmt: skip
    registry.add("v1", VersionArtifacts(manifest, fitted.weights, fitted.optimizer, known))
    served = registry.load("v1").model()
    assert served.booster is None
    data = window([2], 3, known)
    scores = [
        held_out_scores(net, fitted.schema, data, experiment(tmp_path, model), fitted.training)
        for net in (served, fitted.model(model))
    ]
    np.testing.assert_array_equal(*scores)
    stored = registry.load("v1")
    parent = replace(fitted.as_parent(), weights=stored.weights(), optimizer=stored.optimizer())
    warm = fit_light(data, "warm.pt", parent=parent, teacher_weight=0.1)
    for name in boosters:
        assert warm.weights[name].shape == fitted.weights[name].shape
    assert any(not torch.equal(warm.weights[name], fitted.weights[name]) for name in boosters)
    fresh = fit_light(data, "fresh.pt")
    moved = [
        sum((net.weights[name] - fitted.weights[name]).square().sum() for name in boosters)
        for net in (warm, fresh)
    ]
    assert moved[0] < 0.5 * moved[1]


def test_pairs_with_a_new_outcome_cannot_go_on(tmp_path):
    """On each day behaviours have another action, and the row of a pair is that of its item times the number of actions."""
    features = FEATURES | {"behavior": ["item_id", "category", "action"]}
    vocabularies = FieldVocabularies()
    data = window([0, 1], 2, vocabularies, features)
    fitted = fit(tmp_path, data, model="nade", name="first.pt")
    fit(tmp_path, data, parent=fitted.as_parent(), model="nade", name="again.pt")
    with pytest.raises(InputError, match=r"nade: the row of a pair of an item and action .* was 3 and is 4"):
        fit(tmp_path, window([2], 3, vocabularies, features), parent=fitted.as_parent(), model="nade")
