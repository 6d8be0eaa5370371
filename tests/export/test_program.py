"""Every model, written for one user, scores like the model itself: in Python, ONNX Runtime and torch.export."""

import numpy as np
import pytest
import torch
from support.batches import OWN_SCHEMA, PLAIN_SCHEMA, SCHEMA
from support.exported import EVERY_KIND, EXPORTED, exported, graph_of, random_model
from support.one_user import random_request, scores

from deep_interest.errors import InputError
from deep_interest.evaluation.calibration import IsotonicCalibration
from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.export.logits import logits
from deep_interest.export.program import Calibrated, trace
from deep_interest.export.request import Request
from deep_interest.serving.scorer import Scorer

TOLERANCE = 1e-5
FORMATS = ["onnx", "pt2"]
DISTINCT = list({graph_of(key): key for key in reversed(EXPORTED)}.values())[::-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema", [PLAIN_SCHEMA, OWN_SCHEMA, EVERY_KIND], ids=["items only", "own fields", "every kind"]
)
@pytest.mark.parametrize("key", EXPORTED)
def test_one_user_in_plain_torch_has_the_logits_of_the_model(key, schema):
    model = random_model(key, schema)
    model = model.double()
    for length, candidates in ((0, 3), (1, 1), (5, 3), (130, 2)):
        inputs, batch = random_request(model.schema, length, candidates, seed=length)
        with torch.inference_mode():
            expected, found = model(batch).logits, logits(model, Request(inputs, model.schema))
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["popularity", "dien"])
def test_the_onnx_model_of_some_families_has_the_ctrs_of_the_model(key, tmp_path):
    check_export(key, "onnx", tmp_path)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("key", DISTINCT)
def test_every_exported_model_has_the_ctrs_of_the_model(key, format, tmp_path):
    check_export(key, format, tmp_path)


def check_export(key, format, tmp_path):
    """Compare an exported model with the model, from no behaviours to many."""
    model = random_model(key, EVERY_KIND)
    run, ctrs = exported(model, format, tmp_path), []
    for length, candidates in ((0, 3), (1, 1), (2, 2), (9, 5), (120, 4)):
        inputs, batch = random_request(model.schema, length, candidates, seed=length)
        expected = scores(model, batch)
        np.testing.assert_allclose(run(inputs), expected, rtol=0, atol=TOLERANCE)
        ctrs.extend(expected)
    assert np.ptp(ctrs) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("key", ["din", "dien"])
def test_an_exported_model_equals_the_scorer(key, format, tmp_path):
    model = random_model(key, SCHEMA)
    run = exported(model, format, tmp_path)
    for length in (0, 1, 50):
        inputs, batch = random_request(model.schema, length, 4, seed=length)
        profile = {name: codes[:1] for name, codes in batch.profile.items()}
        expected = Scorer(model)(batch.history, batch.candidate, profile=profile, context=batch.context)
        found = run(inputs)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_duplicate_candidates_have_the_same_ctr(format, tmp_path):
    model = random_model("dien", PLAIN_SCHEMA)
    inputs, _ = random_request(model.schema, 6, 3)
    inputs |= {name: codes[[0, 1, 0]] for name, codes in inputs.items() if name.startswith("candidates.")}
    first, other, again = exported(model, format, tmp_path)(inputs)
    assert first == pytest.approx(again, abs=1e-7)
    assert abs(first - other) > 1e-3


def test_models_with_the_same_graph_are_exported_once():
    assert {graph_of(key) for key in DISTINCT} == {graph_of(key) for key in EXPORTED}
    assert graph_of("din") != graph_of("din_softmax")
    assert graph_of("din") == graph_of("din_mba")


@pytest.mark.slow
def test_inputs_that_a_model_does_not_read_are_left_out():
    model = random_model("popularity", SCHEMA)
    assert [spec.name for spec in trace(model).inputs] == ["candidates.item_id"]
    model = random_model("reg_no_goods", SCHEMA)
    names = [spec.name for spec in trace(model).inputs]
    assert names == ["history.category", "candidates.category", "profile.gender", "context.hour"]


@pytest.mark.slow
def test_parameters_of_a_training_loss_are_not_exported():
    model = random_model("sim_soft", PLAIN_SCHEMA)
    assert any(name.startswith("soft.mlp.") for name in model.state_dict())
    names = list(trace(model).exported.state_dict)
    assert "model.soft.behavior.weight" in names
    assert not [name for name in names if "soft.mlp" in name]
    assert any(name.startswith("soft.mlp.") for name in model.state_dict())


@pytest.mark.slow
def test_boosted_trees_cannot_be_exported():
    model = random_model("boosted", PLAIN_SCHEMA)
    with pytest.raises(InputError, match=r"^export: boosted is an ensemble of scikit-learn trees"):
        trace(model)


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_the_calibration_is_part_of_the_program(format, tmp_path):
    """One whose map has many points, between which the scores are."""
    points = np.linspace(0, 1, 202), np.linspace(0, 1, 202) ** 2
    calibration = Calibration(0.25, IsotonicCalibration(*points))
    model = random_model("base", PLAIN_SCHEMA)
    run = exported(model, format, tmp_path, calibration)
    inputs, batch = random_request(model.schema, 6, 50)
    odds = scores(model, batch).astype(float)
    odds = odds / (1 - odds) / 4
    found, expected = run(inputs), np.interp(odds / (1 + odds), *points)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
    assert np.ptp(found) > 0.01


@pytest.mark.parametrize(
    "isotonic", [None, IsotonicCalibration(np.array([0, 0.4, 1]), np.array([0.01, 0.1, 0.9]))]
)
def test_the_calibration_in_tensors_equals_that_of_the_version(isotonic):
    p = np.concatenate([np.float32([0, 1, 0.4]), np.random.default_rng(1).random(1000, np.float32)])
    calibration = Calibration(0.3, isotonic)
    found = Calibrated(calibration)(torch.from_numpy(p))
    np.testing.assert_allclose(found.numpy(), calibration(p), rtol=0, atol=1e-15)
