"""The folder of an exported model: program, schema and vocabularies, so that a request can be encoded without this
package.

model.onnx or model.pt2        the program
schema.json                    inputs, context encoding, and where the model comes from
vocabulary.item.parquet        the inputs of each item, by its id
vocabulary.user.parquet        the profile inputs of each user, by id; only for models with profile features
vocabulary.<field>.parquet     the code of each value of a context feature
SHA256SUMS                     checksums of these files
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from torch import Tensor, nn

import deep_interest
from deep_interest.errors import InputError
from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.export.inputs import CANDIDATES, CONTEXT, HISTORY, PROFILE, InputSpec
from deep_interest.export.program import OUTPUT, Program, trace, write_onnx, write_pt2
from deep_interest.io.atomic import atomic_path
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.schema import Field
from deep_interest.logs.standardised import LIMIT, STEPS, decode
from deep_interest.logs.vocabulary import FieldVocabularies, FieldVocabulary, Vocabulary
from deep_interest.training.data import FeatureStore

Format = Literal["onnx", "pt2"]
_WRITERS: dict[Format, Callable[[Program, Path], None]] = {"onnx": write_onnx, "pt2": write_pt2}
FORMATS: tuple[Format, ...] = ("onnx", "pt2")
_SCHEMA = "schema.json"
_ITEM, _USER = "item", "user"  # names of the tables by id; no feature may have these names


@dataclass(frozen=True)
class TrainedModel:
    """A trained model and everything that encodes a request for it.

    Attributes:
        model: trained model.
        store: log and feature codes in the model's vocabularies, on the CPU.
        users, items: ids of the log.
        context: vocabularies of the context features.
        columns: feature columns.
        max_len: maximum number of behaviours in a history.
        calibration: calibration of the model's probabilities, which becomes part of the program.
    """

    model: nn.Module
    store: FeatureStore
    users: Vocabulary
    items: Vocabulary
    context: FieldVocabularies
    columns: FeatureColumns
    max_len: int
    calibration: Calibration = field(default_factory=Calibration)


def require_packages(format: Format) -> None:
    """Check that the packages of a format are installed.

    Raises:
        InputError: a package of the extra ``export`` is missing.
    """
    needed = ("onnx", "onnxscript") if format == "onnx" else ()
    if missing := [name for name in needed if find_spec(name) is None]:
        raise InputError(
            f'--format {format}: {", ".join(missing)} is not installed; run `pip install "deep-interest[export]"`'
        )


def write_artifact(folder: Path, trained: TrainedModel, format: Format, facts: Mapping[str, Any]) -> None:
    """Write the folder of an exported model atomically.

    Args:
        folder: folder to write; an older export is replaced.
        trained: the model and its vocabularies.
        format: ``onnx`` or ``pt2``.
        facts: where the model comes from, as JSON values: dataset, model, version, seed.

    Raises:
        InputError: the model cannot be exported, a package is missing, the folder contains files of something else,
            or the disk is full.
    """
    require_packages(format)
    program = trace(trained.model, trained.calibration)
    origin = {"deep_interest": deep_interest.__version__, "weights_sha256": weights_checksum(trained.model)}
    schema = {**facts, **origin, "format": format, **_description(program.inputs, trained)}
    with atomic_path(folder, directory=True) as temporary:
        _WRITERS[format](program, temporary / f"model.{format}")
        for name, table in _tables(program.inputs, trained):
            table.to_parquet(temporary / f"vocabulary.{name}.parquet", index=False)
        (temporary / _SCHEMA).write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")


def weights_checksum(model: nn.Module) -> str:
    """Return the SHA-256 of all parameters and buffers: names, types, shapes and bytes in the order of their names."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        array = value.cpu().contiguous().numpy()
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _description(inputs: list[InputSpec], trained: TrainedModel) -> dict[str, Any]:
    """Return what ``schema.json`` says about inputs and encoding."""
    context = [spec.field for spec in inputs if spec.group == CONTEXT]
    calibrated = trained.calibration.changes
    return {
        "max_len": trained.max_len,
        "unknown_code": 0,
        "inputs": [_input(spec, trained) for spec in inputs],
        "output": {
            "name": OUTPUT,
            "type": "float64" if calibrated else "float32",
            "shape": ["C"],
            "calibrated": calibrated,
        },
        "context": {name: _encoding(name, trained) for name in dict.fromkeys(context)},
        "vocabularies": [name for name, _ in _tables(inputs, trained)],
    }


def _input(spec: InputSpec, trained: TrainedModel) -> dict[str, Any]:
    description: dict[str, Any] = {
        "name": spec.name, "group": spec.group, "field": spec.field, "kind": spec.kind,
        "type": str(spec.dtype).removeprefix("torch."), "shape": [1 if spec.shape == "1" else spec.shape],
    }  # fmt: skip
    if spec.size:
        description["codes"] = spec.size
    if spec.kind == "number":
        description |= {"missing": "NaN", "smallest": -LIMIT, "largest": LIMIT, "steps": STEPS}
    if spec.group == HISTORY:
        field = next(field for field in trained.store.schema.behavior if field.name == spec.field)
        shared = field in trained.store.schema.shared
        description["of"] = _ITEM if shared else "derived" if field.derived else "behaviour"
    return description


def _encoding(name: str, trained: TrainedModel) -> dict[str, Any]:
    """Return how a context feature is encoded, next to its vocabulary."""
    known = trained.context.fields[name]
    if known.standardisation is not None:
        return known.standardisation._asdict()
    if known.borders is not None:
        return {"borders": list(known.borders)}
    multi_hot = trained.columns.multi_hot.get(name)
    return {"separator": multi_hot.separator} if multi_hot else {}


def _tables(inputs: Iterable[InputSpec], trained: TrainedModel) -> list[tuple[str, pd.DataFrame]]:
    """Return the vocabularies by name."""
    store, read = trained.store, {(spec.group, spec.field) for spec in inputs}
    schema = store.schema
    items = [
        field for field in schema.item if (CANDIDATES, field.name) in read or (HISTORY, field.name) in read
    ]
    profile = [field for field in schema.profile if (PROFILE, field.name) in read]
    context = [field for field in schema.context if (CONTEXT, field.name) in read and not field.dense]
    tables = [(_ITEM, _by_id(trained.items, items, store.items, store))]
    if profile:
        tables.append((_USER, _by_id(trained.users, profile, store.users, store)))
    return tables + [(field.name, _values(trained.context.fields[field.name])) for field in context]


def _by_id(
    ids: Vocabulary, fields: Iterable[Field], codes: Mapping[str, Tensor], store: FeatureStore
) -> pd.DataFrame:
    """Return the inputs of each entity: a column ``value`` of ids, and one per field."""
    columns = {field.name: _column(field, codes[field.name][1:].numpy(), store) for field in fields}
    return pd.DataFrame({"value": ids.values, **columns})


def _column(field: Field, codes: np.ndarray, store: FeatureStore) -> Any:
    """Return the codes of a field; z for a dense field, lists of codes for a multi-hot one."""
    if field.dense:
        return decode(codes, missing=np.nan)
    if not field.pooling:
        return codes
    sets = store.value_sets[field.name]
    offsets, values = sets.offsets.numpy(), sets.values.numpy()
    return [values[offsets[code] : offsets[code + 1]] for code in codes]


def _values(known: FieldVocabulary) -> pd.DataFrame:
    """Return the values of a context feature and their codes; of one with buckets, the numbers of the buckets."""
    values = known.vocabulary.values
    return pd.DataFrame({"value": values, "code": np.arange(1, len(values) + 1, dtype=np.int32)})
