"""Raw files as their publishers pack them: is one there, is it whole, what stands on its lines."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from isal import igzip
from isal.isal_zlib import IsalError

from deep_interest.errors import InputError
from deep_interest.sources.downloads import explain_missing

_STEP = 1 << 20  # bytes inflated at a time: they stay in the cache until they are checked
_PART = 32 << 20
LINE_LIMIT = 16 << 20
"""Bytes of the longest line that is read; a longer one is not a record but a damaged or hostile file."""


def require_file(path: Path) -> None:
    """Raise ``InputError`` unless ``path`` is a file with something in it."""
    if not path.is_file():
        raise InputError(explain_missing(path))
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty (0 bytes). Delete it and fetch it again.")


def verify_text(path: Path, limit: int = LINE_LIMIT) -> None:
    """Read a plain or .gz file to its end, in constant memory.

    Args:
        path: the file.
        limit: bytes of the longest line allowed, at least 1 MiB.

    Raises:
        InputError: a .gz is truncated or damaged, or a line is too long.
    """
    block, lines = bytearray(_STEP), _LineLengths(path, limit)
    with _opened(path) as stream, _named_damage(path):
        while size := stream.readinto(block):
            lines.check(block, 0, size)


def plain_parts(path: Path) -> Iterator[Path]:
    """Yield plain files that together hold the lines of ``path``: itself, or the inflated parts of a .gz.

    A part is a temporary file of whole lines, about 32 MiB, that lives until the next one is asked for; a second
    thread inflates one part ahead. DuckDB could read the .gz itself, but it verifies no checksum and before 2.0
    takes a truncated file for a shorter one; a check beside it would inflate everything twice.

    Raises:
        InputError: a .gz is truncated or damaged, at the latest after its last part, or a line is too long.
    """
    if not is_gzip(path):
        verify_text(path)
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


def text_lines(path: Path, limit: int = LINE_LIMIT) -> Iterator[tuple[int, bytes]]:
    """Yield ``(line number from 1, line)`` of a plain or .gz file, without its blank lines.

    Raises:
        InputError: a .gz is truncated or damaged, or a line is longer than ``limit`` bytes.
    """
    with _opened(path) as stream, _named_damage(path):
        for number, line in bounded_lines(stream, str(path), limit):
            if not line.isspace():
                yield number, line


def is_gzip(path: Path) -> bool:
    """Whether the name says that the file is compressed."""
    return path.suffix == ".gz"


def bounded_lines(stream: BinaryIO, shown: str, limit: int = LINE_LIMIT) -> Iterator[tuple[int, bytes]]:
    """Yield ``(line number from 1, line)`` without ever holding more than one line of ``limit`` bytes.

    Args:
        stream: an open file.
        shown: its name for messages.
        limit: bytes of the longest line allowed, without its line feed.

    Raises:
        InputError: a line is longer.
    """
    for number, line in enumerate(iter(partial(stream.readline, limit + 1), b""), start=1):
        if len(line) > limit and not line.endswith(b"\n"):
            raise InputError(
                f"{shown}, line {number}: the line is longer than {limit:,} bytes, the most that is read. Split or remove "
                "the line, or check that the file is what its name says."
            )
        yield number, line


class _LineLengths:
    """Looks for a line that is too long in a file that is read block by block."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path, self.limit, self.length = path, limit, 0

    def check(self, block: bytearray, start: int, end: int) -> None:
        """Take the file's next bytes, at most 1 MiB: a line within them cannot be too long."""
        first, last = block.find(b"\n", start, end), block.rfind(b"\n", start, end)
        self.length += (end if first < 0 else first) - start
        if self.length > self.limit:
            for _ in text_lines(self.path, self.limit):  # counts the lines and raises the error
                pass
        if last >= 0:
            self.length = end - last - 1


def _opened(path: Path) -> BinaryIO:
    return igzip.open(path) if is_gzip(path) else path.open("rb")


def _inflate(stream: BinaryIO, path: Path, folder: Path) -> Iterator[Path]:
    block = bytearray(_PART)  # one for all parts: fresh pages cost a third of the time
    unfinished_line = b""
    number = 0
    lines = _LineLengths(path, LINE_LIMIT)
    while size := _fill(block, stream, lines):
        end = block.rfind(b"\n", 0, size) + 1
        if end:
            yield _write(folder / f"{number}.json", unfinished_line, memoryview(block)[:end])
            unfinished_line = b""
        unfinished_line += block[end:size]
        number += 1
    if unfinished_line:
        yield _write(folder / f"{number}.json", unfinished_line)


def _fill(block: bytearray, stream: BinaryIO, lines: _LineLengths) -> int:
    size = 0
    with memoryview(block) as view, _named_damage(lines.path):
        while read := stream.readinto(view[size : size + _STEP]):
            lines.check(block, size, size + read)
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
