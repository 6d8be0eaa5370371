"""Convert files in other encodings to temporary copies in UTF-8."""

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from deep_interest.errors import InputError
from deep_interest.sources.raw_files import read_blocks
from deep_interest.sources.tables.declaration import TableFiles
from deep_interest.sources.tables.files import ResolvedFiles, partition_keys


def convert_to_utf8(resolved: ResolvedFiles, table: TableFiles, folder: Path) -> ResolvedFiles:
    """Write the files of a table to ``folder`` in UTF-8 if it declares another encoding.

    Args:
        resolved: files of the table.
        table: declaration of the table.
        folder: temporary folder; a copy takes as much space there as the uncompressed file.

    Returns:
        The files to read, with the originals for messages.

    Raises:
        InputError: a file has bytes that are not valid in the encoding.
    """
    if table.encoding == "utf-8":
        return resolved
    copies = []
    for index, file in enumerate(resolved.originals):
        keys = [f"{key}={value}" for key, value in partition_keys(file).items()]
        copy = folder.joinpath(str(index), *keys, file.name.removesuffix(".gz"))
        copy.parent.mkdir(parents=True)
        _convert(file, copy, table.encoding)
        copies.append(copy)
    return replace(resolved, files=tuple(copies))


@contextmanager
def name_originals(resolved: ResolvedFiles) -> Iterator[None]:
    """Name the original files instead of their copies in errors."""
    try:
        yield
    except InputError as error:
        message = str(error)
        for copy, original in zip(resolved.files, resolved.originals, strict=True):
            message = message.replace(str(copy), str(original))
        if message == str(error):
            raise
        raise InputError(message) from error


def _convert(file: Path, copy: Path, encoding: str) -> None:
    decoder = codecs.getincrementaldecoder(encoding)()
    position = 0
    with copy.open("w", encoding="utf-8", newline="") as stream:
        try:
            for block in read_blocks(file):
                stream.write(decoder.decode(block))
                position += len(block)
            stream.write(decoder.decode(b"", final=True))
        except UnicodeError as error:
            reason = str(error)
            if isinstance(error, UnicodeDecodeError):
                reason = f"{error.reason} near byte {position + error.start:,}"
            raise InputError(
                f"{file}: the file is not encoded in {encoding} ({reason}); set encoding to that of the program that wrote it, "
                "for example utf-8, cp1252 (Windows) or latin-1"
            ) from error
