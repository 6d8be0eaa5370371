"""The behaviour log and the feature tables as folders of plain ``.npy`` files (no pickle), memory-mappable."""

from pathlib import Path

import numpy as np

from deep_interest.io.atomic import atomic_path
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.multi_hot import ValueSets
from deep_interest.logs.schema import FeatureSchema

_SCHEMA = "schema.json"


def save_log(log: BehaviorLog, path: Path) -> None:
    """Write ``offsets.npy``, ``field.<name>.npy``, ``times.npy`` and ``negatives.npy`` if the log has them; those of a further
    sequence are called ``sequence.<name>.…``.
    """
    arrays = _arrays_of(log)
    for name, sequence in log.sequences.items():
        arrays |= {f"sequence.{name}.{key}": array for key, array in _arrays_of(sequence).items()}
    _save_arrays(arrays, path)


def _arrays_of(log: BehaviorLog) -> dict[str, np.ndarray]:
    optional = {"times": log.times, "negatives": log.negatives}
    arrays = {name: array for name, array in optional.items() if array is not None}
    return {"offsets": log.offsets} | arrays | {f"field.{name}": codes for name, codes in log.fields.items()}


def load_log(path: Path) -> BehaviorLog:
    """Read a folder written by :func:`save_log`; the arrays are memory-mapped, so that processes share them."""
    main: dict[str, np.ndarray] = {}
    sequences: dict[str, dict[str, np.ndarray]] = {}
    for key, array in _load_arrays(path).items():
        if key.startswith("sequence."):
            _, name, rest = key.split(".", 2)
            sequences.setdefault(name, {})[rest] = array
        else:
            main[key] = array
    return _log_of(main, {name: _log_of(arrays, {}) for name, arrays in sequences.items()})


def _log_of(arrays: dict[str, np.ndarray], sequences: dict[str, BehaviorLog]) -> BehaviorLog:
    fields = {
        name.removeprefix("field."): codes for name, codes in arrays.items() if name.startswith("field.")
    }
    return BehaviorLog(arrays["offsets"], fields, arrays.get("times"), arrays.get("negatives"), sequences)


def save_features(features: FeatureTables, path: Path) -> None:
    """Write ``schema.json``, ``item.<field>.npy``, ``user.<field>.npy``, ``value_set_offsets.<field>.npy`` and ``value_sets.<field>.npy``."""
    arrays = {f"item.{name}": codes for name, codes in features.items.items()}
    arrays |= {f"user.{name}": codes for name, codes in features.users.items()}
    arrays |= {
        f"value_set_offsets.{name}": value_sets.offsets for name, value_sets in features.value_sets.items()
    }
    arrays |= {f"value_sets.{name}": value_sets.values for name, value_sets in features.value_sets.items()}
    _save_arrays(arrays, path, schema=features.schema)


def load_features(path: Path) -> FeatureTables:
    """Read a folder written by :func:`save_features`."""
    arrays = _load_arrays(path)
    schema = FeatureSchema.model_validate_json((path / _SCHEMA).read_text())
    groups = {
        group: {name.removeprefix(group): codes for name, codes in arrays.items() if name.startswith(group)}
        for group in ("item.", "user.", "value_set_offsets.", "value_sets.")
    }
    offsets, values = groups["value_set_offsets."], groups["value_sets."]
    value_sets = {name: ValueSets(offsets[name], values[name]) for name in values}
    return FeatureTables(schema, groups["item."], groups["user."], value_sets)


def _save_arrays(arrays: dict[str, np.ndarray], path: Path, *, schema: FeatureSchema | None = None) -> None:
    with atomic_path(path, directory=True) as folder:
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        if schema is not None:
            (folder / _SCHEMA).write_text(schema.model_dump_json(indent=1))


def _load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Load arrays by name, memory-mapped copy-on-write: torch needs writable arrays, and changes are never written back."""
    files = sorted(path.resolve().glob("*.npy"))
    return {
        file.name.removesuffix(".npy"): np.load(file, mmap_mode="c", allow_pickle=False) for file in files
    }
