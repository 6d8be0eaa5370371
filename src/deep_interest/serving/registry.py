"""The model registry: every trained version as a folder that never changes, and one small file that says which one serves.

    registry/
        champion.json              which version serves, which did before, which days are done
        2024-03-14-1f0c2a9b/       one version
            manifest.json          model, options, schema, training days, figures, the gate's verdict, code version
            weights.pt             parameters
            optimizer.pt           moments, for a later fit that goes on from there
            vocabulary.<field>.parquet
            SHA256SUMS             of all these files, as ``sha256sum --check`` reads it

A version is written under a temporary name, flushed and renamed; promotion replaces ``champion.json`` in one step. So at
every moment, whatever was killed or full, the champion is whole, or its damage is known.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from deep_interest.errors import InputError
from deep_interest.files import atomic_path
from deep_interest.logs.schema import FeatureSchema
from deep_interest.logs.vocabulary import FieldVocabularies, FieldVocabulary, Vocabulary

_SUMS, _MANIFEST, _WEIGHTS, _OPTIMIZER = "SHA256SUMS", "manifest.json", "weights.pt", "optimizer.pt"
_STATE, _LOCK = "champion.json", ".lock"


class DamagedVersionError(InputError):
    """A version's files are not what was written."""


class BusyError(InputError):
    """Another run works on this registry."""


class RegistryState(BaseModel):
    """What ``champion.json`` holds.

    Attributes:
        promotions: the versions that have served and were not rolled back, oldest first; the last one serves.
        days: ``{day: what is known of it}`` of the days that runs have taken.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    promotions: tuple[str, ...] = ()
    days: dict[str, dict[str, Any]] = {}

    @property
    def champion(self) -> str | None:
        return self.promotions[-1] if self.promotions else None

    @property
    def previous(self) -> str | None:
        return self.promotions[-2] if len(self.promotions) > 1 else None


@dataclass(frozen=True)
class Content:
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


class Registry:
    """The versions of one row of one dataset.

    Args:
        folder: where they lie; made where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the registry's one lock; the system frees it when the process ends, however it ends.

        Raises:
            BusyError: another process holds it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / _LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise BusyError(
                f"{self.folder}: another run is at work there; this one ends without having changed anything"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def state(self) -> RegistryState:
        """What serves, and which days are done.

        Raises:
            InputError: the file is damaged.
        """
        path = self.folder / _STATE
        if not path.exists():
            return RegistryState()
        try:
            return RegistryState.model_validate_json(path.read_text(encoding="utf-8"))
        except (ValidationError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path} is damaged ({error}); bring it back from a backup, or delete it and promote a version again: the days "
                "are then taken anew"
            ) from error

    def commit(self, state: RegistryState) -> None:
        """Make ``state`` the registry's, in one step."""
        with atomic_path(self.folder / _STATE) as temporary:
            temporary.write_text(state.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def add(self, version: str, content: Content) -> None:
        """Write a version, or leave it as it is if it is there and whole.

        Raises:
            InputError: the disk is full.
        """
        if version in self.names() and not self.damage(version):
            return
        fields = {
            name: None if field.borders is None else list(field.borders)
            for name, field in content.vocabularies.fields.items()
        }
        with atomic_path(self.folder / version, directory=True) as folder:
            _save(folder / _WEIGHTS, content.weights)
            _save(folder / _OPTIMIZER, content.optimizer)
            for name, field in content.vocabularies.fields.items():
                pd.DataFrame({"value": field.vocabulary.values}).to_parquet(folder / _vocabulary_file(name))
            manifest = {"version": version, **content.manifest, "fields": fields}
            (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
            sums = "".join(f"{_sha256(file)}  {file.name}\n" for file in sorted(folder.iterdir()))
            (folder / _SUMS).write_text(sums, encoding="utf-8")

    def names(self) -> list[str]:
        """All versions, in the order of their last training days."""
        if not self.folder.exists():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir() and path.name[0] != ".")

    def load(self, version: str) -> Version:
        """A version, after its files have been compared with their checksums.

        Raises:
            InputError: no such version.
            DamagedVersionError: a file is missing, changed or too much.
        """
        if version not in self.names():
            raise InputError(
                f"{self.folder}: there is no version {version}; the versions are {', '.join(self.names()) or 'none'}"
            )
        if damage := self.damage(version):
            raise DamagedVersionError(
                f"{self.folder / version}: {damage}; this version is not used. Roll back to the one before (deep-interest registry "
                "rollback), promote another, or bring the files back"
            )
        folder = self.folder / version
        return Version(version, folder, json.loads((folder / _MANIFEST).read_text(encoding="utf-8")))

    def champion(self) -> Version | None:
        """The version that serves; None before the first promotion."""
        name = self.state().champion
        return None if name is None else self.load(name)

    def damage(self, version: str) -> str:
        """What is wrong with a version's files; empty if nothing is."""
        folder = self.folder / version
        try:
            lines = (folder / _SUMS).read_text(encoding="utf-8").splitlines()
            expected = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
        except (OSError, ValueError) as error:
            return f"{_SUMS} cannot be read ({error})"
        found = {file.name for file in folder.iterdir()} - {_SUMS}
        if missing := sorted(set(expected) - found):
            return f"{', '.join(missing)} missing"
        if strange := sorted(found - set(expected)):
            return f"{', '.join(strange)} without a checksum"
        changed = sorted(name for name, digest in expected.items() if _sha256(folder / name) != digest)
        return f"{', '.join(changed)} not as its checksum says" if changed or not expected else ""

    def promote(self, version: str) -> None:
        """Let a version serve.

        Raises:
            InputError: no such version, or it is damaged.
        """
        self.load(version)
        state = self.state()
        if state.champion != version:
            self.commit(state.model_copy(update={"promotions": (*state.promotions, version)}))

    def rollback(self) -> str:
        """Let the version before serve again; its name.

        Raises:
            InputError: there is none, or it is damaged.
        """
        state = self.state()
        if state.previous is None:
            raise InputError(f"{self.folder}: there is no version before the champion to go back to")
        self.load(state.previous)
        self.commit(state.model_copy(update={"promotions": state.promotions[:-1]}))
        return state.previous

    def prune(self, keep: int) -> list[str]:
        """Delete all but the newest ``keep`` versions, never the champion nor the one before it; and what kills left behind.

        Returns:
            The deleted versions.
        """
        state = self.state()
        spared = {state.champion, state.previous, *self.names()[-keep:]}
        old = [name for name in self.names() if name not in spared]
        for name in old:
            (self.folder / name).rename(self.folder / f".{name}.part")  # never half a version under its name
        for leftover in self.folder.glob(".*.part"):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        return old


def _vocabulary_file(field: str) -> str:
    return f"vocabulary.{field}.parquet"


def _save(path: Path, tensors: Mapping[str, Any]) -> None:
    import torch  # noqa: PLC0415

    with path.open("wb") as file:  # by its path, torch would hide a full disk
        torch.save(dict(tensors), file)


def _load(path: Path) -> dict[str, Any]:
    import torch  # noqa: PLC0415

    return torch.load(path, map_location="cpu", weights_only=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
