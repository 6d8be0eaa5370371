"""A publisher's .zip, or the folder it unpacks to, read in the same way."""

import errno
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from deep_interest.errors import InputError
from deep_interest.sources.raw_files import require_file

DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)
"""What `zipfile` raises for a damaged archive; an OSError with an ``errno`` other than ``EINVAL`` is the disk's fault."""
_BLOCK = 1 << 20
_ENCRYPTED = 0x1 | 0x40  # flag bits: with a password, with strong encryption
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}
_SMALL = 64 << 20  # bytes: no check of the ratio below
_RATIO = 200  # tables of text shrink to a third or a tenth, at the very best to a fiftieth
_LIST = 256 << 20  # bytes of a member that is read whole; the longest list of movies has 4 MB


def is_disk_fault(error: BaseException) -> bool:
    """Whether one of `DAMAGE` says that the disk could not be read, rather than that the file is damaged."""
    return getattr(error, "errno", None) not in (None, errno.EINVAL)


def check_member(path: Path, member: zipfile.ZipInfo) -> None:
    """Check that a member of a .zip can be read, by what the .zip says about it.

    Raises:
        InputError: it is encrypted, packed by an unknown method, or unpacks to an absurd size.
    """
    if member.flag_bits & _ENCRYPTED:
        raise InputError(
            f"{path}: {member.filename} is encrypted. Unpack it with its password, or get the publisher's own file."
        )
    if member.compress_type not in _METHODS:
        raise InputError(
            f"{path}: {member.filename} is packed by method {member.compress_type}, which is not supported. Pack it again as an "
            "ordinary .zip (deflate), or unpack it into a folder."
        )
    if member.file_size > max(_SMALL, _RATIO * member.compress_size):
        raise InputError(
            f"{path}: {member.filename} would unpack from {member.compress_size:,} to {member.file_size:,} bytes, more than "
            f"{_RATIO} times its size, which no table does. Check where the file comes from."
        )


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
        deepest_first = sorted(names, key=lambda name: -len(PurePosixPath(name).parts))
        self._places = {
            PurePosixPath(name).name: name for name in deepest_first if not name.startswith("__MACOSX/")
        }

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
            InputError: there is no such file, or it is damaged, encrypted or packed by an unknown method.
        """
        if name not in self:
            raise InputError(f"{self.path}: found no {name} in it. The set is incomplete: fetch it again.")
        with self._named_damage(), self._open(self._places[name]) as stream:
            yield stream

    def content(self, name: str) -> bytes:
        """Read ``name`` whole.

        Raises:
            InputError: as `member`, or it has more than 256 MiB.
        """
        with self.member(name) as stream:
            content = stream.read(_LIST + 1)
        if len(content) > _LIST:
            raise InputError(f"{self.path}: {name} has more than {_LIST:,} bytes. Fetch the set again.")
        return content

    def verify(self, name: str) -> None:
        """Read ``name`` to its checksum, so that damage is told apart from bad contents."""
        with self.member(name) as stream:
            while stream.read(_BLOCK):
                pass

    def _open(self, place: str) -> BinaryIO:
        if self._zip is None:
            return (self.path / place).open("rb")
        member = self._zip.getinfo(place)
        check_member(self.path, member)
        return self._zip.open(member)

    @contextmanager
    def _named_damage(self) -> Iterator[None]:
        try:
            yield
        except NotImplementedError as error:
            raise InputError(
                f"{self.path}: the .zip is packed in a way that is not supported ({error}). Pack it again as an ordinary "
                ".zip, or unpack it into a folder."
            ) from error
        except DAMAGE as error:
            if is_disk_fault(error):
                raise
            found = str(error) or "it ends too early"
            raise InputError(
                f"{self.path}: the .zip is truncated or damaged ({found}). Delete it and fetch it again."
            ) from error
