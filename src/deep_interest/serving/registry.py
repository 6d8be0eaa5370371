"""The model registry: every trained version as a folder that never changes, and one small file that says which one serves.

    registry/
        champion.json              which version serves, which did before, which days are done; its checksum is in a hidden file
        2024-03-14-1f0c2a9b/       one version, see `version`

A version appears in one step; promotion replaces ``champion.json`` in one step. So at every moment, whatever was killed or
full, the champion is whole, or its damage is known.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.io.checksums import damage_of, sidecar
from deep_interest.serving.version import Version, VersionArtifacts, read_version, write_version

_STATE, _LOCK = "champion.json", ".lock"


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
            InputError: the file does not match its checksum.
        """
        path = self.folder / _STATE
        if not path.exists():
            return RegistryState()
        if damage := damage_of(path):
            raise InputError(
                f"{path} is damaged: {damage}. Restore it and {sidecar(path).name} from a backup, or delete both and promote a "
                "version again: the next run then takes all days as new ones"
            )
        return RegistryState.model_validate_json(path.read_text(encoding="utf-8"))

    def commit(self, state: RegistryState) -> None:
        """Make ``state`` the registry's, in one step."""
        with atomic_path(self.folder / _STATE, checksum=True) as temporary:
            temporary.write_text(state.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def add(self, version: str, artifacts: VersionArtifacts) -> None:
        """Write a version, or leave it as it is if it is there and whole.

        Raises:
            InputError: the disk is full.
        """
        if version in self.names() and not self.damage(version):
            return
        write_version(self.folder / version, artifacts)

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
        return read_version(self.folder / version)

    def champion(self) -> Version | None:
        """The version that serves; None before the first promotion."""
        name = self.state().champion
        return None if name is None else self.load(name)

    def damage(self, version: str) -> str:
        """What is wrong with a version's files; empty if nothing is."""
        return damage_of(self.folder / version)

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
