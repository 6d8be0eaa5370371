"""A version of every model scores as the model that was stored, in float32 and with tables of reduced precision."""

import copy

import numpy as np
import pytest
import torch
from support.batches import SCHEMA, random_batch

from deep_interest.experiments import RETRAINABLE
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.models.config import Precision
from deep_interest.models.precision import reduce_precision
from deep_interest.models.registry import build_model, model_config
from deep_interest.serving.version import VersionArtifacts, read_version, write_version

EVERY_TIME = ("din", "dien", "fm", "lr", "pnn", "din_light", "sim_soft")
KEYS = [key if key in EVERY_TIME else pytest.param(key, marks=pytest.mark.nightly) for key in RETRAINABLE]
COMMON = {"embedding_dim": 6, "embedding_std": 1.0, "hidden": (5, 4), "attention_hidden": (6, 3)}


@torch.inference_mode()
def logits(model):
    return model(random_batch([3, 0, 7, 12])).logits


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_a_version_scores_as_the_model_that_was_stored(key, tmp_path):
    torch.manual_seed(1)
    config = model_config(key, {}, common=COMMON)
    model = build_model(key, config, SCHEMA)
    weights = copy.deepcopy(model.state_dict())
    for part in getattr(model, "training_only", ()):
        setattr(model, part, None)
    model.eval()
    for tables in ("float32", "float16", "bfloat16", "int8") if key != "lr" else ("float32", "float16"):
        precision, expected = Precision(tables=tables), copy.deepcopy(model)
        manifest = {
            "model": key, "config": config.model_dump(mode="json"), "schema": SCHEMA.model_dump(mode="json"),
            "precision": precision.model_dump(),
        }  # fmt: skip
        packed = reduce_precision(expected, precision)
        artifacts = VersionArtifacts(manifest, weights, {}, FieldVocabularies(), packed)
        write_version(tmp_path / tables, artifacts)
        version = read_version(tmp_path / tables)
        np.testing.assert_array_equal(logits(version.model()), logits(expected))
        assert all(torch.equal(version.weights()[name], tensor) for name, tensor in weights.items())
