"""SHA-256 checksums of the files that runs write and read back: a damaged file is reported, never used.

The checksum of a file is in a hidden file next to it, ``.<name>.sha256``; those of a folder's files are in its ``SHA256SUMS``.
Both have the format of ``sha256sum --check``. `deep_interest.io.atomic.atomic_path` writes them.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

SUMS = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def sidecar(path: Path) -> Path:
    """Return the path of the hidden file that holds the checksum of the file ``path``."""
    return path.with_name(f".{path.name}.sha256")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sums(digests: Iterable[tuple[str, str]]) -> str:
    """Format pairs of digest and file name, a line each."""
    return "".join(f"{digest}  {name}\n" for digest, name in digests)


def recorded(path: Path) -> list[str]:
    """Return the checksums in the sidecar of a file, oldest first; empty if it is missing or damaged.

    There is one, or during the replacement of the file that of the old and that of the new file.
    """
    try:
        pairs = _parse(sidecar(path))
    except (OSError, ValueError):
        return []
    return [digest for digest, name in pairs] if all(name == path.name for _, name in pairs) else []


def listed(folder: Path) -> dict[str, str]:
    """Return the checksum of each file that the ``SHA256SUMS`` of a folder lists; empty if it is missing or damaged."""
    try:
        return {name: digest for digest, name in _parse(folder / SUMS)}
    except (OSError, ValueError):
        return {}


def damage_of(path: Path) -> str:
    """Describe how a file or folder differs from its checksums; empty if it does not.

    Raises:
        PermissionError: it may not be read.
    """
    try:
        return _damage_of_folder(path) if path.is_dir() else _damage_of_file(path)
    except PermissionError:
        raise
    except OSError as error:
        return f"it cannot be read ({error})"


def _damage_of_file(path: Path) -> str:
    while expected := recorded(path):
        if sha256(path) in expected:
            return ""
        if recorded(path) == expected:  # else another process has replaced the file in between
            return "it does not match its checksum, so it is damaged or was changed by hand"
    return f"its checksum {sidecar(path).name} is missing or damaged"


def _damage_of_folder(folder: Path) -> str:
    expected = listed(folder)
    if not expected:
        return f"{SUMS} is missing or damaged"
    names = {file.name for file in folder.iterdir()} - {SUMS}
    if missing := sorted(set(expected) - names):
        return f"{', '.join(missing)} missing"
    if unlisted := sorted(names - set(expected)):
        return f"{', '.join(unlisted)} not listed in {SUMS}"
    changed = sorted(name for name, digest in expected.items() if sha256(folder / name) != digest)
    return f"{', '.join(changed)} does not match its checksum" if changed else ""


def _parse(path: Path) -> list[tuple[str, str]]:
    """Read pairs of digest and name; ValueError where a line is something else."""
    lines = [_LINE.fullmatch(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if None in lines:
        raise ValueError(f"{path}: expected lines of a SHA-256 and a file name")
    return [(line[1], line[2]) for line in lines if line]
