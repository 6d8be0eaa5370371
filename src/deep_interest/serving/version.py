"""One version of a model: an immutable folder with a checksum of each file.

    2024-03-14-1f0c2a9b/
        README.md              model card, see `serving.model_card`
        manifest.json          model, options, schema, training days, metrics, the gate's decision, code version
        weights.pt             parameters, in float32
        calibration.json       calibration of the probabilities, if it has one
        optimizer.pt           state of the optimizer, for a later training run that continues from it
        vocabulary.<field>.parquet
        <table>.values.npy     embedding tables of reduced precision, with which the version serves; <table>.scales.npy in int8
        SHA256SUMS             checksums of these files, in the format of ``sha256sum --check``

A version is written under a temporary name, flushed to disk and renamed. Its files are compared with their checksums before
they are read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.io.checksums import damage_of
from deep_interest.models.config import Precision

if TYPE_CHECKING:  # listing versions needs neither pandas nor the compiled loops
    from deep_interest.evaluation.version_calibration import Calibration
    from deep_interest.logs.schema import FeatureSchema
    from deep_interest.logs.standardised import Standardisation
    from deep_interest.logs.vocabulary import FieldVocabularies, FieldVocabulary
    from deep_interest.ops.packed_tables import PackedTable

_MANIFEST, _WEIGHTS, _OPTIMIZER = "manifest.json", "weights.pt", "optimizer.pt"
_CALIBRATION = "calibration.json"
CARD = "README.md"


class DamagedVersionError(InputError):
    """Raised if the files of a version do not match their checksums."""


@dataclass(frozen=True)
class VersionArtifacts:
    """Contents of a version.

    Attributes:
        manifest: facts about the version as JSON values; ``model``, ``config``, ``training`` and ``schema`` as in a checkpoint.
        weights: parameters of the model by name.
        optimizer: state of the optimizer.
        vocabularies: vocabularies of the features.
        tables: embedding tables of reduced precision by name, if ``precision`` of the manifest names one.
        calibration: calibration of the probabilities, which ``calibration`` of the manifest describes; None for none.
    """

    manifest: dict[str, Any]
    weights: dict[str, Any]
    optimizer: dict[str, Any]
    vocabularies: "FieldVocabularies"
    tables: "Mapping[str, PackedTable]" = field(default_factory=dict)
    calibration: "Calibration | None" = None


@dataclass(frozen=True)
class Version:
    """A version whose files match their checksums.

    Attributes:
        id: name of the version.
        folder: folder of the version.
        manifest: facts about the version.
    """

    id: str
    folder: Path
    manifest: dict[str, Any]

    @property
    def schema(self) -> "FeatureSchema":
        """Schema of the features that the model was trained with."""
        from deep_interest.logs.schema import FeatureSchema  # noqa: PLC0415

        return FeatureSchema.model_validate(self.manifest["schema"])

    @property
    def precision(self) -> Precision:
        """Precision in which the version scores."""
        return Precision.model_validate(self.manifest.get("precision", {}))

    def model(self) -> Any:
        """Return the model with its parameters, on the CPU and in evaluation mode, without the parts that only training needs.

        Their parameters stay in `weights`, from which training continues. Tables of reduced precision are memory-mapped.
        """
        from deep_interest.models.embeddings import tables_without_rows  # noqa: PLC0415  # torch
        from deep_interest.models.packed_tables import set_tables  # noqa: PLC0415
        from deep_interest.models.precision import set_attention  # noqa: PLC0415
        from deep_interest.models.registry import build_model, stored_config  # noqa: PLC0415
        from deep_interest.serving.packed_files import load_tables  # noqa: PLC0415

        key, packed = self.manifest["model"], load_tables(self.folder, self.precision.tables)
        with tables_without_rows():
            model = build_model(key, stored_config(key, self.manifest["config"]), self.schema)
        set_tables(model, packed)
        weights = _load(self.folder / _WEIGHTS, mmap=bool(packed))  # without the rows of packed tables
        names = model.state_dict()
        model.load_state_dict(
            {name: weights[name].clone() if packed else weights[name] for name in names}, assign=True
        )
        set_attention(model, self.precision)  # after the parameters, which it caches
        for part in getattr(model, "training_only", ()):
            setattr(model, part, None)
        return model.eval()

    def calibration(self) -> "Calibration":
        """Return the calibration of the probabilities of `model`; one that changes nothing for versions without.

        Raises:
            InputError: the file is not that of a calibration.
        """
        from deep_interest.evaluation.version_calibration import Calibration  # noqa: PLC0415  # SciPy

        path = self.folder / _CALIBRATION
        if not path.exists():  # a missing file does not match the checksums
            return Calibration()
        return Calibration.from_dict(json.loads(path.read_text(encoding="utf-8")))

    def weights(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return _load(self.folder / _WEIGHTS)

    def optimizer(self) -> dict[str, Any]:
        """Return the state of the optimizer."""
        return _load(self.folder / _OPTIMIZER)

    def vocabularies(self) -> "FieldVocabularies":
        """Return the vocabularies of the features; the copy may be extended."""
        import pandas as pd  # noqa: PLC0415

        from deep_interest.logs.vocabulary import FieldVocabularies, FieldVocabulary, Vocabulary  # noqa: PLC0415

        return FieldVocabularies(
            {
                name: FieldVocabulary(
                    Vocabulary(pd.Index(pd.read_parquet(self.folder / _vocabulary_file(name))["value"])),
                    *_numbers_of(stored),
                )
                for name, stored in self.manifest["fields"].items()
            }
        )


def write_version(folder: Path, artifacts: VersionArtifacts) -> None:
    """Write a version atomically.

    Args:
        folder: folder of the version; its name is the version's id.
        artifacts: contents of the version.

    Raises:
        InputError: the disk is full.
    """
    import pandas as pd  # noqa: PLC0415

    from deep_interest.serving.model_card import NEEDED, model_card  # noqa: PLC0415
    from deep_interest.serving.packed_files import save_tables  # noqa: PLC0415  # torch

    fields = {name: _stored(field) for name, field in artifacts.vocabularies.fields.items()}
    with atomic_path(folder, directory=True) as temporary:
        _save(temporary / _WEIGHTS, artifacts.weights)
        _save(temporary / _OPTIMIZER, artifacts.optimizer)
        if artifacts.tables:
            save_tables(temporary, artifacts.tables)
        if artifacts.calibration is not None:
            values = json.dumps(artifacts.calibration.to_dict())
            (temporary / _CALIBRATION).write_text(values + "\n", encoding="utf-8")
        for name, field in artifacts.vocabularies.fields.items():
            pd.DataFrame({"value": field.vocabulary.values}).to_parquet(temporary / _vocabulary_file(name))
        manifest = {"version": folder.name, **artifacts.manifest, "fields": fields}
        (temporary / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        if manifest.keys() >= NEEDED:
            (temporary / CARD).write_text(model_card(manifest), encoding="utf-8")


def read_version(folder: Path) -> Version:
    """Compare the files of a version with their checksums and return the version.

    Args:
        folder: folder of the version.

    Raises:
        DamagedVersionError: a file is missing, has changed, or is not listed in ``SHA256SUMS``.
    """
    if damage := damage_of(folder):
        raise DamagedVersionError(
            f"{folder}: {damage}; the version cannot be used. Roll back to the previous one (deep-interest registry "
            "rollback), promote another one, or restore the files from a backup"
        )
    return Version(folder.name, folder, json.loads((folder / _MANIFEST).read_text(encoding="utf-8")))


def _stored(field: "FieldVocabulary") -> list[float] | dict[str, float] | None:
    """Return what the manifest says of a field: its borders, its mean and standard deviation, or None."""
    if field.standardisation is not None:
        return field.standardisation._asdict()
    return None if field.borders is None else list(field.borders)


def _numbers_of(
    stored: list[float] | dict[str, float] | None,
) -> tuple[tuple[float, ...] | None, "Standardisation | None"]:
    """Return borders and standardisation from `_stored`."""
    from deep_interest.logs.standardised import Standardisation  # noqa: PLC0415

    if isinstance(stored, dict):
        return None, Standardisation(**stored)
    return None if stored is None else tuple(stored), None


def _vocabulary_file(field: str) -> str:
    return f"vocabulary.{field}.parquet"


def _save(path: Path, tensors: Mapping[str, Any]) -> None:
    import torch  # noqa: PLC0415

    with path.open("wb") as file:  # given a path, torch would not report a full disk
        torch.save(dict(tensors), file)


def _load(path: Path, *, mmap: bool = False) -> dict[str, Any]:
    import torch  # noqa: PLC0415

    return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
