"""One version of a model: a folder that never changes, with a checksum of each file.

    2024-03-14-1f0c2a9b/
        manifest.json          model, options, schema, training days, figures, the gate's verdict, code version
        weights.pt             parameters
        optimizer.pt           moments, for a later fit that goes on from there
        vocabulary.<field>.parquet
        SHA256SUMS             of all these files, as ``sha256sum --check`` reads it

It is written under a temporary name, flushed and renamed; it is read after its files have been compared with their checksums.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.io.checksums import damage_of
from deep_interest.logs.schema import FeatureSchema
from deep_interest.logs.vocabulary import FieldVocabularies, FieldVocabulary, Vocabulary

_MANIFEST, _WEIGHTS, _OPTIMIZER = "manifest.json", "weights.pt", "optimizer.pt"


class DamagedVersionError(InputError):
    """A version's files are not what was written."""


@dataclass(frozen=True)
class VersionArtifacts:
    """What a version is made of.

    Attributes:
        manifest: plain values; ``model``, ``config``, ``training`` and ``schema`` are those of a checkpoint.
        weights: the model's parameters by name.
        optimizer: the optimiser's state.
        vocabularies: of its features.
    """

    manifest: dict[str, Any]
    weights: dict[str, Any]
    optimizer: dict[str, Any]
    vocabularies: FieldVocabularies


@dataclass(frozen=True)
class Version:
    """A version whose files have been checked.

    Attributes:
        id: its name.
        folder: where it lies.
        manifest: its facts.
    """

    id: str
    folder: Path
    manifest: dict[str, Any]

    @property
    def schema(self) -> FeatureSchema:
        return FeatureSchema.model_validate(self.manifest["schema"])

    def model(self) -> Any:
        """The model with its parameters, on the CPU."""
        from deep_interest.models.registry import build_model, model_config  # noqa: PLC0415  # torch

        key = self.manifest["model"]
        model = build_model(key, model_config(key, self.manifest["config"]), self.schema)
        model.load_state_dict(self.weights())
        return model.eval()

    def weights(self) -> dict[str, Any]:
        """The parameters by name."""
        return _load(self.folder / _WEIGHTS)

    def optimizer(self) -> dict[str, Any]:
        """The optimiser's state."""
        return _load(self.folder / _OPTIMIZER)

    def vocabularies(self) -> FieldVocabularies:
        """The vocabularies of its features, as an object of its own that may grow."""
        return FieldVocabularies(
            {
                name: FieldVocabulary(
                    Vocabulary(pd.Index(pd.read_parquet(self.folder / _vocabulary_file(name))["value"])),
                    None if borders is None else tuple(borders),
                )
                for name, borders in self.manifest["fields"].items()
            }
        )


def write_version(folder: Path, artifacts: VersionArtifacts) -> None:
    """Write a version in one step; ``folder``'s name is its own.

    Raises:
        InputError: the disk is full.
    """
    fields = {
        name: None if field.borders is None else list(field.borders)
        for name, field in artifacts.vocabularies.fields.items()
    }
    with atomic_path(folder, directory=True) as part:
        _save(part / _WEIGHTS, artifacts.weights)
        _save(part / _OPTIMIZER, artifacts.optimizer)
        for name, field in artifacts.vocabularies.fields.items():
            pd.DataFrame({"value": field.vocabulary.values}).to_parquet(part / _vocabulary_file(name))
        manifest = {"version": folder.name, **artifacts.manifest, "fields": fields}
        (part / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def read_version(folder: Path) -> Version:
    """A version, after its files have been compared with their checksums.

    Raises:
        DamagedVersionError: a file is missing, changed or too much.
    """
    if damage := damage_of(folder):
        raise DamagedVersionError(
            f"{folder}: {damage}; this version is not used. Roll back to the one before (deep-interest registry "
            "rollback), promote another, or bring the files back"
        )
    return Version(folder.name, folder, json.loads((folder / _MANIFEST).read_text(encoding="utf-8")))


def _vocabulary_file(field: str) -> str:
    return f"vocabulary.{field}.parquet"


def _save(path: Path, tensors: Mapping[str, Any]) -> None:
    import torch  # noqa: PLC0415

    with path.open("wb") as file:  # by its path, torch would hide a full disk
        torch.save(dict(tensors), file)


def _load(path: Path) -> dict[str, Any]:
    import torch  # noqa: PLC0415

    return torch.load(path, map_location="cpu", weights_only=True)
