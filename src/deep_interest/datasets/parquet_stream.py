"""Streaming a table to one Parquet file, a block at a time."""

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.io.atomic import atomic_path


def write_parquet(
    blocks: Iterable[pd.DataFrame], path: Path, *, metadata: Mapping[str, str] | None = None
) -> int:
    """Write a stream of frames as one Parquet file that appears only when it is whole, with its checksum.

    Memory is that of one block. Each block is one row group or more.

    Args:
        blocks: at least one frame; all with the columns and types of the first.
        path: the file to write; its folder is made where it is missing.
        metadata: further words in the file's own metadata.

    Returns:
        The number of rows written.

    Raises:
        ValueError: there is no block, or one differs in its columns or types from the first.
    """
    with atomic_path(path, checksum=True) as part:
        return stream_parquet(blocks, part, name=path, metadata=metadata)


def stream_parquet(
    blocks: Iterable[pd.DataFrame],
    path: Path,
    *,
    name: Path | None = None,
    metadata: Mapping[str, str] | None = None,
) -> int:
    """Write a stream of frames directly to a Parquet file, for callers that rename it, or its folder, themselves.

    Args:
        blocks, path, metadata: as of `write_parquet`; the folder must exist.
        name: the path that errors name; ``path`` if left out.

    Returns, Raises: as `write_parquet`.
    """
    tables = (pa.Table.from_pandas(block, preserve_index=False) for block in blocks)
    first = next(tables, None)
    if first is None:
        raise ValueError(f"{name or path}: no block to write, expected at least one frame (it may be empty)")
    rows = 0
    schema = first.schema.with_metadata({**(first.schema.metadata or {}), **(metadata or {})})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in chain([first], tables):
            if not table.schema.equals(first.schema):
                found, expected = (
                    dict(zip(s.names, s.types, strict=True)) for s in (table.schema, first.schema)
                )
                raise ValueError(
                    f"{name or path}: a block has the columns {found}, expected {expected} as in the first"
                )
            writer.write_table(table.replace_schema_metadata(schema.metadata))
            rows += table.num_rows
    return rows
