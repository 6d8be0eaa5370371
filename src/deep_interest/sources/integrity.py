"""Is a downloaded file the publisher's, and all of it?"""

import gzip
import hashlib
import re
import zipfile
from pathlib import Path

from deep_interest.errors import InputError
from deep_interest.sources.archive import DAMAGE, check_member, is_disk_fault

_BLOCK = 1 << 20


def md5_in(text: str) -> str | None:
    """Return the MD5 in a publisher's ``.md5`` file, whatever else it says, or None."""
    found = re.search(r"\b[0-9a-fA-F]{32}\b", text)
    return found[0].lower() if found else None


def check_md5(path: Path, published: str) -> str:
    """Return a line that says that ``path`` has the published MD5, or raise ``InputError``."""
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "md5").hexdigest()
    if found != published:
        raise InputError(f"{path}: its md5 is {found}, the publisher's is {published}.")
    return f"md5 {found}, as published"


def check_archive(path: Path, name: str) -> str:
    """Read a .zip or .gz to its own checksums; return a line with its sha256, or raise ``InputError``.

    Args:
        path: the file.
        name: the name that tells the kind, where ``path`` still ends in ``.part``.
    """
    try:
        _read_zip(path) if name.endswith(".zip") else _read_gzip(path)
    except (NotImplementedError, *DAMAGE) as error:  # gzip.BadGzipFile is an OSError
        if is_disk_fault(error):
            raise
        raise InputError(f"{path}: the file is truncated or damaged ({error}).") from error
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return f"whole by its own checksums, no other is published; sha256 {sha256}"


def _read_zip(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            check_member(path, member)
        damaged = archive.testzip()
    if damaged:
        raise zipfile.BadZipFile(f"bad checksum of {damaged}")


def _read_gzip(path: Path) -> None:
    with gzip.open(path) as stream:
        while stream.read(_BLOCK):
            pass
