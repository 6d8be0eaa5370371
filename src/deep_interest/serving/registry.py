"""Model registry: an immutable folder per trained version, and one small file that says which version serves.

    registry/
        champion.json              versions that serve and served, processed days; its checksum is in a hidden file
        2024-03-14-1f0c2a9b/       one version, see `version`

Versions are added and ``champion.json`` is replaced atomically. Even after a kill or on a full disk the champion is complete, or
its damage is detected.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path, clear_unfinished_below
from deep_interest.io.checksums import damage_of, sidecar
from deep_interest.serving.version import Version, VersionArtifacts, read_version, write_version

STATE, _LOCK = "champion.json", ".lock"


class BusyError(InputError):
    """Raised if another run holds the lock of the registry."""


class RegistryState(BaseModel):
    """Contents of ``champion.json``.

    Attributes:
        promotions: versions that were promoted and not rolled back, oldest first; the last one serves.
        days: records of the days that runs have processed, by day.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    promotions: tuple[str, ...] = ()
    days: dict[str, dict[str, Any]] = {}

    @property
    def champion(self) -> str | None:
        """Version that serves; None before the first promotion."""
        return self.promotions[-1] if self.promotions else None

    @property
    def previous(self) -> str | None:
        """Version that served before the champion; None if there is none."""
        return self.promotions[-2] if len(self.promotions) > 1 else None


class Registry:
    """The versions of one model of one dataset.

    Args:
        folder: folder of the registry; created when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the registry's lock; the operating system releases it if the process is killed.

        Raises:
            BusyError: another process holds it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / _LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise BusyError(
                f"{self.folder}: another run is using this registry; this run stops without changing anything"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def state(self) -> RegistryState:
        """Return which version serves and which days are processed.

        Raises:
            InputError: ``champion.json`` does not match its checksum.
        """
        path = self.folder / STATE
        if not path.exists():
            return RegistryState()
        if damage := damage_of(path):
            raise InputError(
                f"{path} is damaged: {damage}. Restore it and {sidecar(path).name} from a backup; or delete both and promote a "
                "version again, and the next run treats all days as new"
            )
        return RegistryState.model_validate_json(path.read_text(encoding="utf-8"))

    def commit(self, state: RegistryState) -> None:
        """Replace the state of the registry atomically."""
        with atomic_path(self.folder / STATE, checksum=True) as temporary:
            temporary.write_text(state.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def add(self, version: str, artifacts: VersionArtifacts) -> None:
        """Write a version; an existing version is replaced only if it is damaged.

        Args:
            version: id of the version.
            artifacts: contents of the version.

        Raises:
            InputError: the disk is full.
        """
        if version in self.names() and not self.damage(version):
            return
        write_version(self.folder / version, artifacts)

    def names(self) -> list[str]:
        """Return the ids of all versions, ordered by their last training day."""
        if not self.folder.exists():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir() and path.name[0] != ".")

    def load(self, version: str) -> Version:
        """Compare the files of a version with their checksums and return the version.

        Raises:
            InputError: there is no such version.
            DamagedVersionError: a file is missing, has changed, or is not listed in ``SHA256SUMS``.
        """
        if version not in self.names():
            raise InputError(
                f"{self.folder}: there is no version {version}; existing versions: {', '.join(self.names()) or 'none'}"
            )
        return read_version(self.folder / version)

    def champion(self) -> Version | None:
        """Return the version that serves; None before the first promotion."""
        name = self.state().champion
        return None if name is None else self.load(name)

    def damage(self, version: str) -> str:
        """Describe how a version's files differ from their checksums; empty if they do not."""
        return damage_of(self.folder / version)

    def promote(self, version: str) -> None:
        """Make a version the champion.

        Raises:
            InputError: there is no such version, or it is damaged.
        """
        self.load(version)
        state = self.state()
        if state.champion != version:
            self.commit(state.model_copy(update={"promotions": (*state.promotions, version)}))

    def rollback(self) -> str:
        """Make the previous version the champion again and return its id.

        Raises:
            InputError: there is no previous version, or it is damaged.
        """
        state = self.state()
        if state.previous is None:
            raise InputError(f"{self.folder}: there is no previous version to roll back to")
        self.load(state.previous)
        self.commit(state.model_copy(update={"promotions": state.promotions[:-1]}))
        return state.previous

    def prune(self, keep: int) -> list[str]:
        """Delete old versions and leftovers of killed runs.

        Args:
            keep: number of newest versions to keep; champion and previous version are kept in addition.

        Returns:
            Ids of the deleted versions.
        """
        state = self.state()
        kept = {state.champion, state.previous, *self.names()[-keep:]}
        old = [name for name in self.names() if name not in kept]
        for name in old:  # a kill leaves no incomplete version
            (self.folder / name).rename(self.folder / f".{name}.part")
        clear_unfinished_below(self.folder)
        return old
