"""Read a publisher's .zip file, or the folder it unpacks to, through the same interface."""

import errno
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from deep_interest.errors import InputError
from deep_interest.sources.raw_files import require_file

DAMAGE_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)
"""What `zipfile` raises for a damaged archive; an OSError with an ``errno`` other than ``EINVAL`` is a disk error."""
_BLOCK_SIZE = 1 << 20  # bytes
_ENCRYPTED = 0x1 | 0x40  # flag bits: encrypted with a password, strong encryption
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}
_UNCHECKED_SIZE = 64 << 20  # bytes: the compression ratio of smaller members is not checked
_MAX_RATIO = 200  # text tables compress to a third or a tenth, a fiftieth at most
_READ_LIMIT = 256 << 20  # bytes of a member that is read at once; the largest list of movies has 4 MB


def is_disk_error(error: BaseException) -> bool:
    """Return whether one of `DAMAGE_ERRORS` means that the disk could not be read, rather than a damaged file."""
    return getattr(error, "errno", None) not in (None, errno.EINVAL)


def check_member(path: Path, member: zipfile.ZipInfo) -> None:
    """Check the directory entry of a .zip member before it is read.

    Args:
        path: path of the .zip file, for messages.
        member: directory entry of the member.

    Raises:
        InputError: the member is encrypted, has an unsupported compression method, or an implausible uncompressed size.
    """
    if member.flag_bits & _ENCRYPTED:
        raise InputError(
            f"{path}: {member.filename} is encrypted. Unpack it with its password, or download the publisher's file."
        )
    if member.compress_type not in _METHODS:
        raise InputError(
            f"{path}: {member.filename} uses compression method {member.compress_type}, which is not supported. "
            "Compress it again as an ordinary .zip (deflate), or unpack it into a folder."
        )
    if member.file_size > max(_UNCHECKED_SIZE, _MAX_RATIO * member.compress_size):
        raise InputError(
            f"{path}: {member.filename} would unpack from {member.compress_size:,} to {member.file_size:,} bytes, more "
            f"than {_MAX_RATIO} times its size, which is implausible for a table. Check where the file comes from."
        )


class Archive:
    """Files of a .zip file or folder, addressed by their names without folders.

    Args:
        path: a .zip file, or a folder that contains the files directly or one folder below.

    Raises:
        InputError: ``path`` is missing or empty, or is a truncated .zip file.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            self._zip = None
            entries = [*self.path.glob("*"), *self.path.glob("*/*")]
            paths = [entry.relative_to(self.path).as_posix() for entry in entries if entry.is_file()]
        else:
            require_file(self.path)
            with self._report_damage():
                self._zip = zipfile.ZipFile(self.path)
            paths = self._zip.namelist()
        # the file closest to the root wins; __MACOSX contains metadata files that macOS adds
        deepest_first = sorted(paths, key=lambda path: -len(PurePosixPath(path).parts))
        self._paths = {
            PurePosixPath(path).name: path for path in deepest_first if not path.startswith("__MACOSX/")
        }

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        if self._zip is not None:
            self._zip.close()

    def __contains__(self, name: str) -> bool:
        return name in self._paths

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file for reading; a wrong checksum at its end raises ``InputError``.

        Raises:
            InputError: the file is missing, damaged, encrypted or compressed by an unsupported method.
        """
        if name not in self:
            raise InputError(
                f"{self.path}: found no {name} in it. The dataset is incomplete: download it again."
            )
        with self._report_damage(), self._open_path(self._paths[name]) as stream:
            yield stream

    def read(self, name: str) -> bytes:
        """Return the whole content of a file.

        Raises:
            InputError: as for `open`, or the file has more than 256 MiB.
        """
        with self.open(name) as stream:
            content = stream.read(_READ_LIMIT + 1)
        if len(content) > _READ_LIMIT:
            raise InputError(
                f"{self.path}: {name} has more than {_READ_LIMIT:,} bytes. Download the dataset again."
            )
        return content

    def verify(self, name: str) -> None:
        """Read a file up to its checksum, to distinguish a damaged file from invalid content.

        Raises:
            InputError: as for `open`.
        """
        with self.open(name) as stream:
            while stream.read(_BLOCK_SIZE):
                pass

    def _open_path(self, path: str) -> IO[bytes]:
        if self._zip is None:
            return (self.path / path).open("rb")
        member = self._zip.getinfo(path)
        check_member(self.path, member)
        return self._zip.open(member)

    @contextmanager
    def _report_damage(self) -> Iterator[None]:
        try:
            yield
        except NotImplementedError as error:
            raise InputError(
                f"{self.path}: the .zip file uses a feature that is not supported ({error}). Compress it again as an "
                "ordinary .zip, or unpack it into a folder."
            ) from error
        except DAMAGE_ERRORS as error:
            if is_disk_error(error):
                raise
            reason = str(error) or "it ends too early"
            raise InputError(
                f"{self.path}: the .zip file is truncated or damaged ({reason}). Delete it and download it again."
            ) from error
