"""The folder of an exported model, read by the loader of the documentation: a shop with every kind of feature."""

import json
import re
import runpy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from support.exported import OPTIONS
from support.project import PROJECT

from deep_interest.errors import InputError
from deep_interest.export.artifact import TrainedModel, require_packages, weights_checksum, write_artifact
from deep_interest.io.checksums import damage_of
from deep_interest.logs.encoded_log import encode_log
from deep_interest.logs.encoding import behavior_log, code_column, encode_behaviors, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.models.registry import build_model, model_config
from deep_interest.serving.encoder import Encoder
from deep_interest.serving.predictor import Predictor
from deep_interest.training.data import FeatureStore

MAX_LEN = 4
CONTEXT = {"hour": 9, "price": 3.5, "temperature": 20.0, "flags": "x|y"}
HISTORY = ["a", "c", "b", "b", "a"]


def make_predictor(key: str) -> Predictor:
    """A shop with one-hot, multi-hot, bucketed and standardised features, and a model with random parameters."""
    tables = CanonicalTables(
        pd.DataFrame({"user": [7, 7, 7, 8], "item": ["a", "b", "c", "c"], "time": [1, 2, 3, 1], "rating": [1, 5, 3,
        5]}), pd.DataFrame({"item": ["a", "b", "c"], "category": ["u", "v", "v"], "genres": ["p|q", "q", None],
        "grams": [1.0, 2.5, None]}), users=pd.DataFrame({"user": [7, 8], "age": [30.0, 40.0], "likes": ["m|n", "n"]}),
    )  # fmt: skip
    columns = FeatureColumns(
        item=("item_id", "category", "genres", "grams"),
        behavior=("item_id", "category", "genres", "grams", "rating", "gap", "position"),
        profile=("age", "likes"), context=tuple(CONTEXT), buckets={"price": 3}, standardised=("grams", "age",
        "temperature"), multi_hot={"genres": "|", "likes": "|", "flags": {"separator": "|", "pooling": "mean"}},
    )  # fmt: skip
    users, items = Vocabulary.fit(tables.behaviors["user"]), Vocabulary.fit(tables.items["item"])
    log, vocabularies = encode_log(tables, users=users, items=items), FieldVocabularies()
    shown = pd.DataFrame(
        {
            "hour": [9, 10, 9],
            "price": [1.0, 3.0, 7.0],
            "temperature": [12.0, 20.0, 23.0],
            "flags": ["x", "y|z", "x"],
        }
    )
    context = {name: code_column(vocabularies, name, shown[name], columns) for name in CONTEXT}
    own = encode_behaviors(tables.behaviors, columns, vocabularies=vocabularies)
    features = encode_features(tables, log, columns, context=context, own=own, vocabularies=vocabularies)
    torch.manual_seed(0)
    options = {name: value for name, value in OPTIONS[key].items() if name != "training"}
    model = build_model(key, model_config(key, options, common={"embedding_dim": 4}), features.schema).eval()
    for values in model.parameters():
        torch.nn.init.normal_(values, std=0.3)
    store = FeatureStore.build(behavior_log(log, features, own), features, torch.device("cpu"))
    frozen = FieldVocabularies(vocabularies.fields, frozen=True)
    return Predictor(
        f"shop.{key}", model, store, Encoder(users, items, frozen, columns), max_len=MAX_LEN, seed=1
    )


def export(predictor: Predictor, folder, format="onnx"):
    encoder = predictor.encoder
    trained = TrainedModel(
        predictor.model, predictor.store, encoder.users, encoder.items, encoder.context, encoder.columns,
        predictor.max_len
    )  # fmt: skip
    write_artifact(folder, trained, format, {"dataset": "shop", "model": "din", "version": None, "seed": 1})


def documented_loader(tmp_path, monkeypatch) -> SimpleNamespace:
    """Run the loader of the documentation for every kind of feature in a project folder."""
    page = (PROJECT / "docs/export.md").read_text()
    _, code = re.findall(r"```python\n(import json\n.*?)```", page, flags=re.DOTALL)
    (tmp_path / "loader.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    return SimpleNamespace(**runpy.run_path(str(tmp_path / "loader.py")))


@pytest.mark.slow
@pytest.mark.parametrize(
    "key",
    [
        "din",
        pytest.param("dien", marks=pytest.mark.nightly),
        pytest.param("sim_soft", marks=pytest.mark.nightly),
    ],
)
def test_the_documented_loader_predicts_like_the_package(key, tmp_path, monkeypatch):
    predictor = make_predictor(key)
    export(predictor, tmp_path / "data/06_models/simulated/din/export_onnx")
    loader, ctrs = documented_loader(tmp_path, monkeypatch), []
    for user, items, changes, history in (
        (7, ["a", "b", "c"], {}, HISTORY),
        (8, ["c"], {"hour": 10, "price": 100, "temperature": 99.0, "flags": "z|unknown|y"}, ["a"]),
        (99, ["zzz", "a", "zzz"], {"hour": 3, "price": 0.5, "flags": "unknown"}, ["zzz", "c"]),
        (7, ["b", "a"], {"hour": 99, "price": None, "temperature": None, "flags": None}, []),
    ):  # fmt: skip
        context = CONTEXT | changes
        expected = predictor.predict(user, items, context, history=history)
        found = loader.predict(user, items, context, history)
        assert found.index.tolist() == items
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        ctrs.extend(expected)
    assert np.ptp(ctrs) > 0.01


@pytest.mark.slow
def test_the_folder_describes_the_model(tmp_path):
    predictor, folder = make_predictor("din"), tmp_path / "export"
    export(predictor, folder, "pt2")
    assert damage_of(folder) == ""
    files = {"item", "user", "hour", "price", "flags"}
    assert {path.name for path in folder.iterdir()} == {
        "model.pt2", "schema.json", "SHA256SUMS", *(f"vocabulary.{name}.parquet" for name in files)
    }  # fmt: skip
    schema = json.loads((folder / "schema.json").read_text())
    assert {name: schema[name] for name in ("dataset", "model", "version", "seed", "format", "max_len")} == {
        "dataset": "shop", "model": "din", "version": None, "seed": 1, "format": "pt2", "max_len": 4
    }  # fmt: skip
    assert schema["weights_sha256"] == weights_checksum(predictor.model)
    inputs = {spec["name"]: spec for spec in schema["inputs"]}
    assert inputs["history.item_id"] == {
        "name": "history.item_id", "group": "history", "field": "item_id", "kind": "code", "type": "int64",
        "shape": ["T"], "codes": 4, "of": "item",
    }  # fmt: skip
    assert [inputs[f"history.{name}"]["of"] for name in ("rating", "gap", "position")] == [
        "behaviour", "derived", "derived"
    ]  # fmt: skip
    assert inputs["profile.age"]["shape"] == [1]
    assert schema["context"]["temperature"] == pytest.approx({"mean": 55 / 3, "std": np.std([12, 20, 23])})
    assert schema["context"]["flags"] == {"separator": "|"}
    items = pd.read_parquet(folder / "vocabulary.item.parquet").set_index("value")
    assert items["item_id"].to_dict() == {"a": 1, "b": 2, "c": 3}
    assert items["category"].tolist() == [1, 2, 2]
    assert [codes.tolist() for codes in items["genres"]] == [[1, 2], [2], [0]]
    assert np.isnan(items["grams"]["c"])
    assert items["grams"]["b"] == pytest.approx(1.0)
    assert items["grams"]["a"] == pytest.approx(-1.0)


@pytest.mark.slow
def test_an_older_export_is_replaced_and_other_files_are_not(tmp_path):
    predictor, folder = make_predictor("popularity"), tmp_path / "export"
    export(predictor, folder)
    predictor.model.logits += 1
    export(predictor, folder)
    schema = json.loads((folder / "schema.json").read_text())
    assert schema["weights_sha256"] == weights_checksum(predictor.model)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"export: the folder also holds notes\.txt"):
        export(predictor, folder)
    assert (folder / "notes.txt").read_text() == "mine"


def test_the_checksum_depends_on_every_parameter():
    model = make_predictor("din").model
    before = weights_checksum(model)
    assert before == weights_checksum(make_predictor("din").model)
    with torch.no_grad():
        model.mlp.layers[0].bias[3] += 1e-3
    assert weights_checksum(model) != before


def test_missing_packages_are_named_with_the_extra(monkeypatch):
    monkeypatch.setattr(
        "deep_interest.export.artifact.find_spec", lambda name: None if name == "onnxscript" else name
    )
    message = r'--format onnx: onnxscript is not installed; run `pip install "deep-interest\[export\]"`'
    with pytest.raises(InputError, match=message):
        require_packages("onnx")
    require_packages("pt2")
