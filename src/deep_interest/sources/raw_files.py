"""Raw files as their publishers pack them: is one there, is it whole, what stands on its lines."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from isal import igzip
from isal.isal_zlib import IsalError

from deep_interest.errors import InputError
from deep_interest.sources.downloads import explain_missing

_STEP = 1 << 20  # bytes inflated at a time: they stay in the cache until they are checked
_PART = 32 << 20


def require_file(path: Path) -> None:
    """Raise ``InputError`` unless ``path`` is a file with something in it."""
    if not path.is_file():
        raise InputError(explain_missing(path))
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty (0 bytes). Delete it and fetch it again.")


def verify_gzip(path: Path) -> None:
    """Read a .gz to its checksum.

    Raises:
        InputError: it is truncated or damaged.
    """
    block = bytearray(_STEP)
    with igzip.open(path) as stream, _named_damage(path):
        while stream.readinto(block):
            pass


def plain_parts(path: Path) -> Iterator[Path]:
    """Yield plain files that together hold the lines of ``path``: itself, or the inflated parts of a .gz.

    A part is a temporary file of whole lines, about 32 MiB, that lives until the next one is asked for; a second
    thread inflates one part ahead. DuckDB could read the .gz itself, but it verifies no checksum and before 2.0
    takes a truncated file for a shorter one; a check beside it would inflate everything twice.

    Raises:
        InputError: if a .gz is truncated or damaged, at the latest after its last part.
    """
    if not is_gzip(path):
        yield path
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        igzip.open(path) as stream,
        ThreadPoolExecutor(max_workers=1) as pool,
    ):
        parts = _inflate(stream, path, Path(folder))
        ahead = pool.submit(next, parts, None)
        while (part := ahead.result()) is not None:
            ahead = pool.submit(next, parts, None)
            yield part
            part.unlink()


def text_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield ``(line number from 1, line)`` of a plain or .gz file, without its blank lines.

    Raises:
        InputError: if a .gz is truncated or damaged.
    """
    with igzip.open(path) if is_gzip(path) else path.open("rb") as stream, _named_damage(path):
        for number, line in enumerate(stream, start=1):
            if not line.isspace():
                yield number, line


def is_gzip(path: Path) -> bool:
    """Whether the name says that the file is compressed."""
    return path.suffix == ".gz"


def _inflate(stream: BinaryIO, path: Path, folder: Path) -> Iterator[Path]:
    block = bytearray(_PART)  # one for all parts: fresh pages cost a third of the time
    unfinished_line = b""
    number = 0
    while size := _fill(block, stream, path):
        end = block.rfind(b"\n", 0, size) + 1
        if end:
            yield _write(folder / f"{number}.json", unfinished_line, memoryview(block)[:end])
            unfinished_line = b""
        unfinished_line += block[end:size]
        number += 1
    if unfinished_line:
        yield _write(folder / f"{number}.json", unfinished_line)


def _fill(block: bytearray, stream: BinaryIO, path: Path) -> int:
    size = 0
    with memoryview(block) as view, _named_damage(path):
        while read := stream.readinto(view[size : size + _STEP]):
            size += read
    return size


def _write(path: Path, *blocks: bytes | memoryview) -> Path:
    with path.open("wb") as file:
        for block in blocks:
            file.write(block)
    return path


@contextmanager
def _named_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, IsalError, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the disk's fault, not the file's
            raise
        raise InputError(
            f"{path}: the .gz is truncated or damaged ({error}). Delete it and fetch it again."
        ) from error
