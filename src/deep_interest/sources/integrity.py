"""Verify downloaded files: by the publisher's MD5, or by the archive's own checksums."""

import gzip
import hashlib
import re
import zipfile
from pathlib import Path

from deep_interest.errors import InputError
from deep_interest.sources.archive import DAMAGE_ERRORS, check_member, is_disk_error

_BLOCK_SIZE = 1 << 20  # bytes


def find_md5(text: str) -> str | None:
    """Return the first MD5 in the text of a publisher's ``.md5`` file, in lower case, or None."""
    match = re.search(r"\b[0-9a-fA-F]{32}\b", text)
    return match[0].lower() if match else None


def check_md5(path: Path, published: str) -> str:
    """Compare the MD5 of a file with the published one.

    Returns:
        Sentence that states the result, for the user.

    Raises:
        InputError: the MD5 differs.
    """
    with path.open("rb") as stream:
        actual = hashlib.file_digest(stream, "md5").hexdigest()
    if actual != published:
        raise InputError(f"{path}: the MD5 is {actual}, the publisher's is {published}.")
    return f"MD5 {actual}, as published"


def check_archive(path: Path, name: str) -> str:
    """Verify a .zip or .gz file by its own checksums.

    Args:
        path: file to verify.
        name: file name with the extension of the format, because ``path`` may still end in ``.part``.

    Returns:
        Sentence that states the result and the file's SHA-256, for the user.

    Raises:
        InputError: the file is truncated or damaged.
    """
    try:
        _read_zip(path) if name.endswith(".zip") else _read_gzip(path)
    except (NotImplementedError, *DAMAGE_ERRORS) as error:  # gzip.BadGzipFile is an OSError
        if is_disk_error(error):
            raise
        raise InputError(f"{path}: the file is truncated or damaged ({error}).") from error
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return f"verified by the file's own checksums, the publisher provides none; SHA-256 {sha256}"


def _read_zip(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            check_member(path, member)
        damaged_member = archive.testzip()
    if damaged_member:
        raise zipfile.BadZipFile(f"bad checksum of {damaged_member}")


def _read_gzip(path: Path) -> None:
    with gzip.open(path) as stream:
        while stream.read(_BLOCK_SIZE):
            pass
