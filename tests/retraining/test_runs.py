"""The steps of a retraining run call the fit, the gate and the registry with what the plan says."""

import hashlib
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from support.days import FEATURES, day_name, day_tables

import deep_interest
from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import logloss, per_user_auc
from deep_interest.logs.canonical import canonical
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.hashing import Purpose, hash64
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.models.config import Precision
from deep_interest.retraining.baseline import popularity_scores
from deep_interest.retraining.calibration import calibration_segments
from deep_interest.retraining.fitting import fit_challenger, held_out_scores
from deep_interest.retraining.gate import judge
from deep_interest.retraining.groups import by_history_length
from deep_interest.retraining.parameters import (
    CalibrationParameters,
    GateParameters,
    RetrainingParameters,
    RowRule,
    ScoringParameters,
)
from deep_interest.retraining.plan import Plan
from deep_interest.retraining.rows import Before, assign_rows
from deep_interest.retraining.runs import (
    artifacts_of,
    fit_by_plan,
    judge_by_plan,
    overrides_of,
    parent_of,
    retraining_experiment,
    version_name,
)
from deep_interest.retraining.scoring import encode_request, score_with
from deep_interest.retraining.window import encode_window
from deep_interest.serving.model_card import model_card
from deep_interest.serving.registry import Registry
from deep_interest.training.parameters import Recipe, RecipeModel, Recipes, RowOptions, RunParameters
from deep_interest.training.state import code_hash

GATE = GateParameters(minimum_users=2)
ISOTONIC = CalibrationParameters(method="isotonic", minimum_clicks=10)
FLOAT32, INT8 = {"tables": "float32", "attention": "float32"}, Precision(tables="int8")
RECIPE = Recipe(
    training={"batch_size": 64, "epochs": 1, "learning_rate": 0.01},
    model={"embedding_dim": 4, "hidden": (8,)},
)
RETRAINING = RetrainingParameters(
    training={"learning_rate": 0.02}, warm_training={"batch_size": 32}, warm_rate=0.5, teacher_weight=0.25, seed=7
)  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Three days, a experiment, the data of the first two or the second alone, and a champion of the first one in a registry."""
    folder = tmp_path_factory.mktemp("shop")
    tables = [day_tables(number, users=30) for number in range(3)]
    whole = {name: pd.concat([one[name] for one in tables]) for name in tables[0]}
    for name in ("behaviors", "impressions"):
        whole[name] = whole[name].assign(day=(whole[name]["time"] // 86_400).astype(np.int32))
    for name, key in (("items", "item"), ("users", "user")):
        whole[name] = whole[name].drop_duplicates(key).reset_index(drop=True)
    log, vocabularies = canonical(CanonicalTables(**whole)), FieldVocabularies()

    def window(train, held_out, vocabularies=vocabularies):
        return encode_window(
            log, train=[day_name(train)], held_out=day_name(held_out), protocol=ProtocolParameters(name="by_day"),
            features=FeatureColumns.model_validate(FEATURES), vocabularies=vocabularies,
        )  # fmt: skip

    run = RunParameters(device="cpu", processes=1, threads=1, workspace=str(folder / "fits"))
    settings = SimpleNamespace(recipe="ours", training={})
    experiment = retraining_experiment(
        "shop", "base", RowOptions({}), settings, Recipes({"ours": RECIPE}), run, RETRAINING
    )
    registry, first = Registry(folder / "registry"), window(0, 1)
    plan = plan_of("full_window", None)
    fitted = fit_by_plan(experiment, first, plan, registry, RETRAINING)
    verdict, _ = judge_by_plan(experiment, fitted, first, plan, registry, GATE)
    registry.add("v1", artifacts_of("shop", "base", plan, fitted, verdict, vocabularies))
    return SimpleNamespace(
        experiment=experiment, first=first, data=window(1, 2), registry=registry, fitted=fitted, verdict=verdict, folder=folder,
        vocabularies=vocabularies, log=log, window=window,
    )  # fmt: skip


def plan_of(strategy, parent):
    trained = (day_name(0), day_name(1))
    return Plan((), (), (), (day_name(1),), day_name(2), strategy, parent, trained, {})


def test_a_cell_takes_the_datasets_recipe_and_options_and_the_retrainings_seed():
    other = RECIPE.model_copy(update={"training": {"epochs": 9}})
    settings = SimpleNamespace(recipe="ours", training={"epochs": 3})
    options, run = RowOptions({"hidden": (4,)}), RunParameters(workspace="w")
    experiment = retraining_experiment(
        "shop", "din", options, settings, Recipes({"other": other, "ours": RECIPE}), run, RETRAINING
    )
    assert (experiment.dataset, experiment.model, experiment.options, experiment.seeds, experiment.run) == (
        "shop",
        "din",
        options,
        (7,),
        run,
    )
    assert experiment.recipe.training == RECIPE.training | {"epochs": 3}
    assert experiment.recipe.model == RECIPE.model
    run = run.model_copy(update={"recipe": "other"})
    experiment = retraining_experiment(
        "shop", "din", options, settings, Recipes({"other": other, "ours": RECIPE}), run, RETRAINING
    )
    assert experiment.recipe.training == {"epochs": 9}


def test_a_full_window_takes_its_own_options_and_a_warm_start_a_share_of_the_rows_rate(shop):
    assert overrides_of(shop.experiment, RETRAINING, warm=False) == {"learning_rate": 0.02}
    assert overrides_of(shop.experiment, RETRAINING, warm=True) == {"learning_rate": 0.005, "batch_size": 32}
    named = RETRAINING.model_copy(update={"warm_training": {"learning_rate": 0.5}})
    assert overrides_of(shop.experiment, named, warm=True) == {"learning_rate": 0.5}


def test_a_rows_and_a_runs_options_decide_the_rate_of_a_warm_start(shop):
    run = shop.experiment.run.model_copy(update={"options": {"learning_rate": 0.1}})
    settings = SimpleNamespace(recipe="ours", training={})
    by_run = retraining_experiment(
        "shop", "base", RowOptions({}), settings, Recipes({"ours": RECIPE}), run, RETRAINING
    )
    assert overrides_of(by_run, RETRAINING, warm=True)["learning_rate"] == pytest.approx(0.05)
    options = RowOptions({"training": {"learning_rate": 0.3}})
    by_row = retraining_experiment(
        "shop", "base", options, settings, Recipes({"ours": RECIPE}), shop.experiment.run, RETRAINING
    )
    assert overrides_of(by_row, RETRAINING, warm=True)["learning_rate"] == pytest.approx(0.15)


def test_a_recipes_options_for_the_model_decide_the_rate_of_a_warm_start(shop):
    recipe = RECIPE.model_copy(update={"models": {"base": RecipeModel(training={"learning_rate": 0.7})}})
    settings = SimpleNamespace(recipe="ours", training={})
    experiment = retraining_experiment(
        "shop", "base", RowOptions({}), settings, Recipes({"ours": recipe}), shop.experiment.run, RETRAINING
    )
    assert overrides_of(experiment, RETRAINING, warm=True)["learning_rate"] == pytest.approx(0.35)


def test_a_version_comes_back_as_the_model_that_it_was(shop):
    parent = parent_of(shop.registry.load("v1"))
    assert (parent.id, parent.schema, parent.config, parent.training) == (
        "v1", shop.fitted.schema, shop.fitted.config, shop.fitted.training,
    )  # fmt: skip
    assert set(parent.weights) == set(shop.fitted.weights)
    assert all(torch.equal(parent.weights[name], tensor) for name, tensor in shop.fitted.weights.items())
    assert parent.optimizer["steps"] == shop.fitted.optimizer["steps"]


@pytest.mark.parametrize(
    ("strategy", "teacher_weight"),
    [("full_window", 0.0), ("warm_start", 0.0), ("warm_start_with_distillation", 0.25)],
)
def test_a_fit_follows_the_plans_strategy(shop, tmp_path, strategy, teacher_weight):
    """The reference: the fit with everything said by hand. Equal identities mean equal options, data, parent and seed."""
    warm = strategy != "full_window"
    overrides = {"learning_rate": 0.005, "batch_size": 32} if warm else {"learning_rate": 0.02}
    expected = fit_challenger(
        shop.experiment, shop.data, overrides=overrides, seed=7, state_file=tmp_path / "fit.pt",
        parent=parent_of(shop.registry.load("v1")) if warm else None, teacher_weight=teacher_weight,
    )  # fmt: skip
    state_file = shop.folder / "fits" / "shop" / "base" / "retraining.pt"
    state_file.unlink()
    fitted = fit_by_plan(shop.experiment, shop.data, plan_of(strategy, "v1"), shop.registry, RETRAINING)
    assert state_file.exists()
    assert (fitted.identity, fitted.samples) == (expected.identity, expected.samples)
    assert fitted.training == expected.training
    for name, tensor in expected.weights.items():
        torch.testing.assert_close(fitted.weights[name], tensor, rtol=1e-5, atol=1e-7)


def scores_of(shop, fitted, data):
    return held_out_scores(fitted.model("base"), fitted.schema, data, shop.experiment, fitted.training)


def with_groups(verdict, held_out, scores):
    """The verdict with the groups and segments of an uncalibrated model, which have tests of their own."""
    users, labels, lengths = (held_out[name] for name in ("user", "label", "history_end"))
    segments = calibration_segments(users, labels, scores, scores, lengths, np.ones(len(held_out)))
    return replace(verdict, groups=by_history_length(users, labels, scores, lengths), segments=segments)


def test_a_first_version_is_judged_against_the_popularity_of_the_training_days(shop):
    held_out = shop.first.samples[shop.first.samples["split"] == "test"]
    popularity = popularity_scores(shop.first.samples[shop.first.samples["split"] == "train"], held_out)
    scores = scores_of(shop, shop.fitted, shop.first)
    expected = judge(held_out["user"], held_out["label"], scores, None, GATE, popularity=popularity)
    expected = with_groups(expected, held_out, scores)
    assert str(shop.verdict) == str(expected)  # a group may have NaN, which differs from itself
    assert expected.champion is None


def test_a_challenger_is_judged_against_the_champion_on_the_held_out_day(shop, tmp_path):
    parent = parent_of(shop.registry.load("v1"))
    fitted = fit_challenger(
        shop.experiment, shop.data, overrides={}, seed=1, state_file=tmp_path / "fit.pt", parent=parent
    )
    held_out = shop.data.samples[shop.data.samples["split"] == "test"]
    ours, theirs = (scores_of(shop, one, shop.data) for one in (fitted, shop.fitted))
    assert (ours != theirs).any()
    expected = judge(
        held_out["user"], held_out["label"], ours, theirs, GATE, popularity=np.full(len(held_out), 0.5)
    )
    verdict, _ = judge_by_plan(
        shop.experiment, fitted, shop.data, plan_of("warm_start", "v1"), shop.registry, GATE
    )
    assert str(verdict) == str(with_groups(expected, held_out, ours))
    assert verdict.champion.gauc != verdict.challenger.gauc


def test_a_versions_name_is_its_newest_training_day_and_a_hash_of_what_decides_it(shop):
    plan = plan_of("warm_start", "v1")
    whole = json.dumps(
        [
            shop.fitted.identity,
            "warm_start",
            "v1",
            [day_name(0), day_name(1)],
            GATE.model_dump(mode="json"),
            FLOAT32,
            {"method": "none", "negatives_kept": 1.0, "minimum_clicks": 100},
        ]
    )
    assert (
        version_name(plan, shop.fitted, GATE)
        == f"{day_name(1)}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    )
    others = [
        version_name(plan_of("full_window", "v1"), shop.fitted, GATE),
        version_name(plan, shop.fitted, GATE, precision=INT8),
        version_name(plan, shop.fitted, GATE, calibration=ISOTONIC),
    ]
    assert version_name(plan, shop.fitted, GATE) not in others


def test_a_versions_manifest_has_every_fact_of_its_run(shop):
    content = artifacts_of(
        "shop", "base", plan_of("warm_start", "v0"), shop.fitted, shop.verdict, shop.vocabularies
    )
    assert content.manifest == {
        "dataset": "shop", "model": "base", "strategy": "warm_start", "parent": "v0",
        "days": {"trained": [day_name(0), day_name(1)], "fitted_on": [day_name(1)], "held_out": day_name(2)},
        "config": shop.fitted.config, "training": shop.fitted.training, "schema": shop.fitted.schema.model_dump(mode="json"),
        "samples": shop.fitted.samples, "parameters": sum(weight.numel() for weight in shop.fitted.weights.values()), "precision": FLOAT32, "calibration": None, "verdict": shop.verdict.as_dict(),
        "code": {"deep_interest": deep_interest.__version__, "sources": code_hash(), "torch": torch.__version__},
    }  # fmt: skip
    assert json.loads(json.dumps(content.manifest)) == content.manifest
    assert (content.weights, content.optimizer, content.vocabularies, content.calibration) == (
        shop.fitted.weights, shop.fitted.optimizer, shop.vocabularies, None,
    )  # fmt: skip


def test_a_version_with_int8_tables_is_judged_and_stored_with_them(shop):
    """The warm start of the next version continues from the parameters in float32."""
    plan = plan_of("full_window", None)
    verdict, _ = judge_by_plan(
        shop.experiment, shop.fitted, shop.first, plan, shop.registry, GATE, precision=INT8
    )
    shop.registry.add("v8", artifacts_of("shop", "base", plan, shop.fitted, verdict, shop.vocabularies))
    stored = shop.registry.load("v8")
    assert stored.precision.tables == stored.manifest["verdict"]["precision"]["tables"] == "int8"
    assert stored.manifest["verdict"]["precision"]["gauc_float32"] == pytest.approx(
        shop.verdict.challenger.gauc
    )
    scores = held_out_scores(stored.model(), stored.schema, shop.first, shop.experiment, shop.fitted.training)
    whole = scores_of(shop, shop.fitted, shop.first)
    assert 0 < np.abs(scores - whole).max() < 0.01
    held_out = shop.first.samples[shop.first.samples["split"] == "test"]
    by_user = [per_user_auc(held_out["user"], held_out["label"], one) for one in (whole, scores)]
    loss = stored.manifest["verdict"]["precision"]["loss"]
    assert loss["difference"] == pytest.approx(by_user[0].gauc().value - by_user[1].gauc().value)
    assert verdict.challenger.gauc == by_user[1].gauc().value
    weights = parent_of(stored).weights
    assert all(torch.equal(weights[name], tensor) for name, tensor in shop.fitted.weights.items())


def test_a_run_with_rules_compares_and_stores_the_challenger_with_its_own_rows(shop):
    """The reference: the same days in the vocabularies that the version stores, without a map."""
    rows = assign_rows(
        shop.log, FeatureColumns.model_validate(FEATURES), {"item_id": RowRule(min_count=35, max_age_days=1)}, shop.vocabularies,
        held_out=day_name(2), before=Before(shop.fitted.schema.tables, day_name(1)),
    )  # fmt: skip
    plan = plan_of("warm_start", "v1")
    fitted = fit_by_plan(shop.experiment, shop.data, plan, shop.registry, RETRAINING, rows)
    verdict, _ = judge_by_plan(shop.experiment, fitted, shop.data, plan, shop.registry, GATE, rows=rows)
    stored = artifacts_of("shop", "base", plan, fitted, verdict, shop.vocabularies, rows=rows)
    of_items = stored.manifest["rows"]["item_id"]
    assert of_items["champion"] == shop.fitted.schema.tables["item_id"] - 1 == 40
    assert of_items["waiting"] > 0
    assert "So do values of item_id that were rare" in model_card(stored.manifest | {"version": "v9"})
    values = stored.vocabularies.fields["item_id"].vocabulary.values
    assert len(values) == of_items["rows"] == fitted.schema.tables["item_id"] - 1
    frozen = FieldVocabularies(stored.vocabularies.fields, frozen=True)
    held_out = shop.data.samples[shop.data.samples["split"] == "test"]
    for metrics, scores in (
        (verdict.challenger, scores_of(shop, fitted, shop.window(1, 2, frozen))),
        (verdict.champion, scores_of(shop, shop.fitted, shop.data)),
    ):
        by_user = per_user_auc(held_out["user"], held_out["label"], scores)
        assert metrics.gauc == pytest.approx(by_user.gauc().value, abs=1e-9)


def test_a_model_without_tables_that_shrink_is_not_trained(shop):
    experiment = replace(shop.experiment, model="lr")
    retraining = RETRAINING.model_copy(update={"tables": "int8"})
    with pytest.raises(InputError, match="LR has no embedding tables that become smaller in int8"):
        fit_by_plan(experiment, shop.data, plan_of("full_window", None), shop.registry, retraining)


@pytest.fixture(scope="module")
def calibrated(shop):
    """A first version with an isotonic calibration, stored as ``v9``, and its verdict."""
    plan = plan_of("full_window", None)
    verdict, calibration = judge_by_plan(
        shop.experiment, shop.fitted, shop.first, plan, shop.registry, GATE, calibration=ISOTONIC
    )
    artifacts = artifacts_of(
        "shop", "base", plan, shop.fitted, verdict, shop.vocabularies, calibration=calibration
    )
    shop.registry.add("v9", artifacts)
    return SimpleNamespace(verdict=verdict, version=shop.registry.load("v9"))


def test_the_stored_calibration_is_the_one_that_was_judged(shop, calibrated):
    """The reference: log loss and calibration of the stored version on the users that did not calibrate."""
    held_out = shop.first.samples[shop.first.samples["split"] == "test"]
    served = calibrated.version.calibration()(scores_of(shop, shop.fitted, shop.first))
    judges = hash64(7, Purpose.CALIBRATION, held_out["user"].to_numpy()) % 2 == 1
    found, facts = calibrated.verdict.challenger, calibrated.version.manifest["calibration"]
    assert 0 < judges.sum() < len(judges)
    assert found.logloss == pytest.approx(logloss(held_out["label"][judges], served[judges]))
    assert found.calibration == pytest.approx(served[judges].mean() / held_out["label"][judges].mean())
    assert found.gauc == shop.verdict.challenger.gauc
    assert (facts["method"], facts["samples"]) == ("isotonic", (~judges).sum())
    assert calibrated.verdict.checks[-1].name == "impressions of the rarer label to calibrate with"
    assert calibrated.version.manifest["verdict"]["segments"][0]["samples"] == judges.sum()


def test_a_champion_is_judged_by_its_calibrated_scores(shop, calibrated):
    plan = plan_of("warm_start", "v9")
    verdict, _ = judge_by_plan(shop.experiment, shop.fitted, shop.data, plan, shop.registry, GATE)
    held_out = shop.data.samples[shop.data.samples["split"] == "test"]
    raw = scores_of(shop, shop.fitted, shop.data)
    served = calibrated.version.calibration()(raw)
    assert verdict.champion.logloss == pytest.approx(logloss(held_out["label"], served))
    assert verdict.challenger.logloss == pytest.approx(logloss(held_out["label"], raw))
    assert verdict.champion.gauc == verdict.challenger.gauc


def test_a_batch_is_scored_with_the_calibration_and_in_the_same_order(shop, calibrated):
    tables = canonical(CanonicalTables(**{name: table for name, table in day_tables(0, users=30).items()}))
    columns, run = FeatureColumns.model_validate(FEATURES), shop.experiment.run
    scoring = ScoringParameters(context={"placement": 1}, top_k=None)
    plain, served = (
        pd.concat(
            score_with(
                version, encode_request(tables, None, None, columns, scoring, version), scoring, run
            ).blocks
        )
        for version in (shop.registry.load("v1"), calibrated.version)
    )
    pd.testing.assert_frame_equal(served[["user", "item", "rank"]], plain[["user", "item", "rank"]])
    expected = calibrated.version.calibration()(plain["ctr"].to_numpy())
    np.testing.assert_allclose(served["ctr"], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(served["ecpm"], expected, rtol=0, atol=1e-12)
    assert np.abs(served["ctr"] - plain["ctr"]).max() > 0.001


def test_weighted_impressions_are_refused_before_the_fit(shop):
    data = replace(shop.data, samples=shop.data.samples.assign(weight=1.0))
    retraining = RETRAINING.model_copy(update={"calibration": ISOTONIC})
    with pytest.raises(InputError, match=r"the impressions have weights \(source.impressions.weight\)"):
        fit_by_plan(shop.experiment, data, plan_of("full_window", None), shop.registry, retraining)


def test_a_window_counts_the_negatives_that_the_protocol_keeps(shop):
    """Each click of a request keeps one negative of it: of the training day, not of the held-out one."""
    day = [day_tables(number, users=30) for number in range(2)]
    shown = pd.concat([one["impressions"] for one in day], ignore_index=True)
    shown = shown.assign(day=(shown["time"] // 86_400).astype(np.int32), request=np.arange(len(shown)) % 2)
    done = pd.concat([one["behaviors"] for one in day], ignore_index=True)
    items, users = day[0]["items"], day[0]["users"]
    items = pd.concat([items, day[1]["items"]]).drop_duplicates("item").reset_index(drop=True)
    tables = canonical(CanonicalTables(done, items, users, shown))

    def window(**options):
        return encode_window(
            tables, train=[day_name(0)], held_out=day_name(1), protocol=ProtocolParameters(name="by_day", **options),
            features=FeatureColumns.model_validate(FEATURES), vocabularies=FieldVocabularies(),
        )  # fmt: skip

    used = tables.shown[tables.shown["day"] == tables.shown["day"].min()]
    lists = used.groupby(["user", "request"])["label"].agg(["sum", "count"])
    negatives = lists["count"] - lists["sum"]
    kept = np.minimum(negatives, lists["sum"]).sum() / negatives.sum()
    assert 0 < kept < 1
    assert window(list_negatives=1).negatives_kept == pytest.approx(kept)
    assert window().negatives_kept == 1
