"""Models with random parameters, and their exported programs."""

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import yaml
from support.batches import DENSE_SCHEMA, ITEM, PRICE
from support.one_user import Inputs
from support.project import PROJECT

from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.export.program import trace, write_onnx, write_pt2
from deep_interest.logs.schema import FeatureSchema, Field, Sequence
from deep_interest.models.registry import MODELS, build_model, model_config

GENRES, TAGS = Field(name="genres", size=7, pooling="mean"), Field(name="tags", size=6, pooling="sum")
RATING, GAP = Field(name="rating", size=6), Field(name="gap", size=9, derived=True)
EVERY_KIND = DENSE_SCHEMA.model_copy(
    update={
        "item": (*ITEM, PRICE, GENRES, TAGS),
        "behavior": (*ITEM, PRICE, GENRES, TAGS, RATING, Field(name="dwell", size=2, dense=True), GAP),
        "context": (*DENSE_SCHEMA.context, Field(name="flags", size=5, pooling="sum")),
        "sequences": {"purchases": Sequence(behavior=(*ITEM, RATING))},
    }
)
"""One-hot, multi-hot and dense fields in the groups, own and derived fields of a behaviour, and a further sequence."""
OPTIONS = yaml.safe_load((PROJECT / "conf/base/parameters/models.yml").read_text())["models"]
COMMON = {"embedding_dim": 4, "own_dim": 3, "embedding_std": 1.0, "cross_rows": 50}
EXPORTED = [key for key in MODELS if key != "boosted"]
UNCALIBRATED = Calibration()

Run = Callable[[Inputs], np.ndarray]


def random_model(key: str, schema: FeatureSchema, **more: object) -> torch.nn.Module:
    """A model of `models.yml` with random parameters, also where training starts at 0."""
    options = {name: value for name, value in OPTIONS[key].items() if name != "training"} | more
    if "keep_top" in options:
        options["keep_top"] = 6
    config = model_config(key, options, common=COMMON)
    torch.manual_seed(0)
    model = build_model(key, config, schema)
    for name, values in [*model.named_parameters(), *model.named_buffers()]:
        if name.endswith("kept"):
            values.copy_(torch.rand(len(values)) < 0.5)
        elif isinstance(values, torch.nn.Parameter):
            torch.nn.init.normal_(values, std=0.1 if "tables" in name else 0.2)
        elif values.is_floating_point() and not name.endswith("planes"):
            torch.nn.init.uniform_(values, 0.1, 0.9)
    if key == "item_knn":
        _fill_pairs(model)
    return model.eval()


def _fill_pairs(model: torch.nn.Module) -> None:
    """Give half of all pairs of items a similarity."""
    for keys, values in (("keys", "similarities"), ("label_keys", "label_weights")):
        chosen = torch.randperm(model.items**2)[: model.items**2 // 2].sort().values
        setattr(model, keys, chosen)
        setattr(model, values, torch.randn(len(chosen), getattr(model, values).shape[1]))


def exported(
    model: torch.nn.Module, format: str, folder: Path, calibration: Calibration = UNCALIBRATED
) -> Run:
    """Write a model and return a function that runs the file."""
    program, path = trace(model, calibration), folder / f"model.{format}"
    names = [spec.name for spec in program.inputs]
    if format == "onnx":
        write_onnx(program, path)
        session = onnxruntime.InferenceSession(path)
        assert [each.name for each in session.get_inputs()] == names
        return lambda inputs: session.run(["ctr"], {name: inputs[name].numpy() for name in names})[0]
    write_pt2(program, path)
    module = torch.export.load(path).module()
    return lambda inputs: module({name: inputs[name] for name in names}).detach().numpy()


@functools.cache
def graph_of(key: str) -> tuple[str, str]:
    """What determines the graph of a model: class and options; models that differ in training alone have the same."""
    options = {name: value for name, value in OPTIONS[key].items() if name != "training"}
    return MODELS[key].path, repr(sorted(options.items()))
