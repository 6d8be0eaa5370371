"""Stream a table to one Parquet file, one block at a time."""

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def stream_parquet(
    blocks: Iterable[pd.DataFrame],
    path: Path | BinaryIO,
    *,
    name: str | Path | None = None,
    metadata: Mapping[str, str] | None = None,
) -> int:
    """Write a stream of data frames to a Parquet file that the caller renames, itself or with its folder.

    Memory is that of one block. Each block becomes at least one row group.

    Args:
        blocks: at least one data frame; all have the same columns and types.
        path: file to write, in an existing folder, or an open file.
        name: path to use in error messages; defaults to ``path``.
        metadata: additional entries of the file's metadata.

    Returns:
        Number of rows written.

    Raises:
        ValueError: there are no blocks, or a block has other columns or types than the first.
    """
    tables = (pa.Table.from_pandas(block, preserve_index=False) for block in blocks)
    first = next(tables, None)
    if first is None:
        raise ValueError(
            f"{name or path}: no blocks to write, expected at least one data frame (which may be empty)"
        )
    rows = 0
    schema = first.schema.with_metadata({**(first.schema.metadata or {}), **(metadata or {})})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in chain([first], tables):
            if not table.schema.equals(first.schema):
                columns, expected = (
                    dict(zip(s.names, s.types, strict=True)) for s in (table.schema, first.schema)
                )
                raise ValueError(
                    f"{name or path}: a block has the columns {columns}, expected {expected}, the columns of the first "
                    "block"
                )
            writer.write_table(table.replace_schema_metadata(schema.metadata))
            rows += table.num_rows
    return rows
