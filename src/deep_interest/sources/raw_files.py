"""Read plain and gzip-compressed raw files: check that they are complete, and iterate over their lines."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import IO

from isal import igzip
from isal.isal_zlib import IsalError

from deep_interest.errors import InputError
from deep_interest.sources.downloads import missing_file_message

_BLOCK_SIZE = 1 << 20  # bytes decompressed at a time: they stay in the CPU cache until they are checked
_CHUNK_SIZE = 32 << 20  # bytes
LINE_LIMIT = 16 << 20
"""Longest line that is read, in bytes; a longer line means a damaged or hostile file."""


def require_file(path: Path) -> None:
    """Raise ``InputError`` unless ``path`` is a file that is not empty."""
    if not path.is_file():
        raise InputError(missing_file_message(path))
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty (0 bytes). Delete it and download it again.")


def verify_text(path: Path, limit: int = LINE_LIMIT) -> int:
    """Read a plain or .gz file to its end, in constant memory, and return the number of lines.

    Args:
        path: file to read.
        limit: longest allowed line in bytes, at least 1 MiB.

    Raises:
        InputError: a .gz file is truncated or damaged, or a line is too long.
    """
    block, line_lengths = bytearray(_BLOCK_SIZE), _LineLengthCheck(path, limit)
    lines = 0
    with _open(path) as stream, _report_damage(path):
        while size := stream.readinto(block):
            line_lengths.check(block, 0, size)
            lines += block.count(b"\n", 0, size)
    return lines + (line_lengths.length > 0)  # the last one may have no line feed


def decompressed_chunks(path: Path) -> Iterator[Path]:
    """Yield plain files that together contain the lines of ``path``: the file itself, or the chunks of a .gz file.

    A chunk is a temporary file of whole lines, about 32 MiB, which is deleted when the next one is requested; a second
    thread decompresses one chunk ahead. DuckDB can read .gz files, but it does not verify checksums, and versions
    before 2.0 read a truncated file without an error; verifying separately would decompress everything twice.

    Raises:
        InputError: a .gz file is truncated or damaged (raised no later than after the last chunk), or a line is too
            long.
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
        chunks = _decompress(stream, path, Path(folder))
        next_chunk = pool.submit(next, chunks, None)
        while (chunk := next_chunk.result()) is not None:
            next_chunk = pool.submit(next, chunks, None)
            yield chunk
            chunk.unlink()


def text_lines(path: Path, limit: int = LINE_LIMIT) -> Iterator[tuple[int, bytes]]:
    """Yield ``(line number, line)`` of a plain or .gz file, without blank lines; line numbers start at 1.

    Raises:
        InputError: a .gz file is truncated or damaged, or a line is longer than ``limit`` bytes.
    """
    with _open(path) as stream, _report_damage(path):
        for line_number, line in bounded_lines(stream, str(path), limit):
            if not line.isspace():
                yield line_number, line


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the content of a plain or .gz file in blocks of up to 1 MiB.

    Raises:
        InputError: a .gz file is truncated or damaged.
    """
    with _open(path) as stream, _report_damage(path):
        while block := stream.read(_BLOCK_SIZE):
            yield block


def is_gzip(path: Path) -> bool:
    """Return whether the file name ends in ``.gz``."""
    return path.suffix == ".gz"


def bounded_lines(
    stream: IO[bytes] | BufferedIOBase, display_name: str, limit: int = LINE_LIMIT
) -> Iterator[tuple[int, bytes]]:
    """Yield ``(line number, line)`` while holding at most one line of ``limit`` bytes; line numbers start at 1.

    Args:
        stream: open binary file.
        display_name: name of the file for messages.
        limit: longest allowed line in bytes, without its line feed.

    Raises:
        InputError: a line is too long.
    """
    for line_number, line in enumerate(iter(partial(stream.readline, limit + 1), b""), start=1):
        if len(line) > limit and not line.endswith(b"\n"):
            raise InputError(
                f"{display_name}, line {line_number}: the line is longer than {limit:,} bytes, the longest line that "
                "is read. Split or remove the line, or check that the file is of the format that its name says."
            )
        yield line_number, line


class _LineLengthCheck:
    """Detects lines that are too long in a file that is read block by block."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path, self.limit, self.length = path, limit, 0

    def check(self, block: bytearray, start: int, end: int) -> None:
        """Check the next bytes of the file, at most 1 MiB, so that a line within them cannot be too long."""
        first, last = block.find(b"\n", start, end), block.rfind(b"\n", start, end)
        self.length += (end if first < 0 else first) - start
        if self.length > self.limit:
            for _ in text_lines(self.path, self.limit):  # counts the lines and raises the error
                pass
        if last >= 0:
            self.length = end - last - 1


def _open(path: Path) -> BufferedIOBase:
    return igzip.open(path) if is_gzip(path) else path.open("rb")


def _decompress(stream: BufferedIOBase, path: Path, folder: Path) -> Iterator[Path]:
    block = bytearray(
        _CHUNK_SIZE
    )  # reused for all chunks: touching fresh memory pages costs a third of the time
    unfinished_line = b""
    index = 0
    line_lengths = _LineLengthCheck(path, LINE_LIMIT)
    while size := _fill(block, stream, line_lengths):
        end = block.rfind(b"\n", 0, size) + 1
        if end:
            yield _write(folder / f"{index}.json", unfinished_line, memoryview(block)[:end])
            unfinished_line = b""
        unfinished_line += block[end:size]
        index += 1
    if unfinished_line:
        yield _write(folder / f"{index}.json", unfinished_line)


def _fill(block: bytearray, stream: BufferedIOBase, line_lengths: _LineLengthCheck) -> int:
    size = 0
    with memoryview(block) as view, _report_damage(line_lengths.path):
        while read := stream.readinto(view[size : size + _BLOCK_SIZE]):
            line_lengths.check(block, size, size + read)
            size += read
    return size


def _write(path: Path, *blocks: bytes | memoryview) -> Path:
    with path.open("wb") as file:
        for block in blocks:
            file.write(block)
    return path


@contextmanager
def _report_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, IsalError, OSError) as error:  # type: ignore[misc]  # isal's stub declares an instance
        if getattr(error, "errno", None) is not None:  # an error of the disk, not of the file's content
            raise
        raise InputError(
            f"{path}: the .gz file is truncated or damaged ({error}). Delete it and download it again."
        ) from error
