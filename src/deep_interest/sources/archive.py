"""A publisher's .zip, or the folder it unpacks to, read in the same way."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from deep_interest.errors import InputError
from deep_interest.sources.raw_files import require_file

_BLOCK = 1 << 20


class Archive:
    """The files of a .zip or folder, by their names without folders.

    Args:
        path: a .zip file, or a folder that holds the files itself or one folder down.

    Raises:
        InputError: if ``path`` is missing, empty, or a .zip that is truncated.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            self._zip = None
            places = [*self.path.glob("*"), *self.path.glob("*/*")]
            names = [place.relative_to(self.path).as_posix() for place in places if place.is_file()]
        else:
            require_file(self.path)
            with self._named_damage():
                self._zip = zipfile.ZipFile(self.path)
            names = self._zip.namelist()
        # the shallowest wins; __MACOSX holds the shadows that a Mac packs along
        deepest_first = sorted((PurePosixPath(name) for name in names), key=lambda name: -len(name.parts))
        self._places = {name.name: str(name) for name in deepest_first if name.parts[0] != "__MACOSX"}

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        if self._zip is not None:
            self._zip.close()

    def __contains__(self, name: str) -> bool:
        return name in self._places

    @contextmanager
    def member(self, name: str) -> Iterator[BinaryIO]:
        """Open ``name`` for reading; a checksum that fails at its end is an ``InputError``.

        Raises:
            InputError: if there is no such file, or it is damaged.
        """
        if name not in self:
            raise InputError(f"{self.path}: found no {name} in it. The set is incomplete: fetch it again.")
        with self._named_damage(), self._open(self._places[name]) as stream:
            yield stream

    def verify(self, name: str) -> None:
        """Read ``name`` to its checksum, so that damage is told apart from bad contents."""
        with self.member(name) as stream:
            while stream.read(_BLOCK):
                pass

    def _open(self, place: str) -> BinaryIO:
        return (self.path / place).open("rb") if self._zip is None else self._zip.open(place)

    @contextmanager
    def _named_damage(self) -> Iterator[None]:
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            found = str(error) or "it ends too early"
            raise InputError(
                f"{self.path}: the .zip is truncated or damaged ({found}). Delete it and fetch it again."
            ) from error
