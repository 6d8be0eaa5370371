"""Contents of a small version of a model."""

import pandas as pd
import torch

from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.models.registry import build_model, model_config
from deep_interest.serving.version import VersionArtifacts

FIELDS = (Field(name="item_id", size=4),)
SCHEMA = FeatureSchema(item=FIELDS, behavior=FIELDS)


def artifacts(seed=0, dim=3):
    """Return an untrained BaseModel, a state of its optimizer, and three vocabularies."""
    torch.manual_seed(seed)
    config = model_config("base", {}, common={"embedding_dim": dim, "hidden": (4,)})
    model = build_model("base", config, SCHEMA)
    vocabularies = FieldVocabularies()
    vocabularies.learn("item_id", pd.Series(["b", "a", "c"]))
    vocabularies.learn("price", pd.Series([1.0, 2, 3, 4]), buckets=2)
    vocabularies.learn_standardised("age", pd.Series([0.1, 0.2, 7.7]))
    manifest = {
        "model": "base", "config": config.model_dump(mode="json"), "training": {}, "schema": SCHEMA.model_dump(mode="json"),
    }  # fmt: skip
    moments = {"steps": [1], "moments": [(torch.ones(2), torch.zeros(2))]}
    return VersionArtifacts(manifest, model.state_dict(), moments, vocabularies)
