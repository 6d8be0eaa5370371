"""Batch scoring as a pipeline: context values of the configuration, and a registry in which no version serves."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from kedro.config import OmegaConfigLoader

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.models.registry import build_model, model_config
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.score.nodes import make_score, scoring_parameters
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.serving.registry import Registry
from deep_interest.serving.version import VersionArtifacts
from deep_interest.training.parameters import RunParameters

CONF = Path(__file__).parents[2] / "conf"
SHOP = {"title": "Shop", "protocol": {"name": "by_day"}, "features": {"context": ["place", "hour"]}}
RETRAINING = RetrainingParameters()


def test_a_run_overrides_context_values_of_the_dataset():
    settings = DatasetParameters.model_validate(SHOP | {"scoring": {"context": {"place": "top", "hour": 20}}})
    run = RetrainingParameters.model_validate({"scoring": {"context": {"hour": 9}, "top_k": 3}})
    scoring = scoring_parameters(settings, run)
    assert (scoring.context, scoring.top_k) == ({"place": "top", "hour": 9}, 3)
    assert scoring_parameters(settings, RETRAINING).context == {"place": "top", "hour": 20}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "dataset"),
    [("base", "simulated"), ("industrial", "simulated"), ("base", "kuairand"), ("base", "alibaba_ads")],
)
def test_every_context_feature_has_a_value_for_scoring(env, dataset):
    loader = OmegaConfigLoader(
        str(CONF), base_env="base", default_run_env=env, env=env, merge_strategy={"parameters": "soft"}
    )
    settings = DatasetParameters.model_validate(loader["parameters"]["datasets"][dataset])
    assert settings.features.context != ()
    assert set(settings.scoring.context) == set(settings.features.context)


def score(registry):
    settings = DatasetParameters.model_validate(SHOP)
    return make_score("shop", "base")(
        registry.folder / "days", registry, None, None, settings, RETRAINING, RunParameters()
    )


def test_without_versions_the_message_names_the_pipeline_that_trains_one(tmp_path):
    message = r"no version of shop\.base is in production; train one with `kedro run --pipelines=retrain\.shop\.base`"
    with pytest.raises(InputError, match=message):
        score(Registry(tmp_path))


def test_after_refused_versions_the_message_says_how_to_promote_one(tmp_path):
    fields = (Field(name="item_id", size=3),)
    schema = FeatureSchema(item=fields, behavior=fields)
    config = model_config("base", {}, common={"embedding_dim": 2, "hidden": (2,)})
    vocabularies = FieldVocabularies()
    vocabularies.learn("item_id", pd.Series(["a", "b"]))
    weights = build_model("base", config, schema).state_dict()
    registry = Registry(tmp_path)
    for version in ("2024-03-13-aa", "2024-03-14-bb"):
        registry.add(version, VersionArtifacts({}, weights, {"steps": torch.ones(1)}, vocabularies))
    with pytest.raises(
        InputError, match=r"the gate refused its versions \(2\): .*registry promote shop.base 2024-03-14-bb`"
    ):
        score(registry)
