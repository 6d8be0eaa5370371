"""Streaming a table to one Parquet file, a block at a time."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.files import atomic_path


def write_parquet(blocks: Iterable[pd.DataFrame], path: Path) -> int:
    """Write a stream of frames as one Parquet file that appears only when it is whole.

    Memory is that of one block. Each block is one row group or more.

    Args:
        blocks: at least one frame; all with the columns and types of the first.
        path: the file to write; its folder is made where it is missing.

    Returns:
        The number of rows written.

    Raises:
        ValueError: there is no block, or one differs in its columns or types from the first.
    """
    stream, rows = iter(blocks), 0
    first = next(stream, None)
    if first is None:
        raise ValueError(f"{path}: no block to write, expected at least one frame (it may be empty)")
    table = pa.Table.from_pandas(first, preserve_index=False)
    with atomic_path(path) as part, pq.ParquetWriter(part, table.schema, compression="zstd") as writer:
        while table is not None:
            writer.write_table(table)
            rows += table.num_rows
            block = next(stream, None)
            table = (
                None
                if block is None
                else pa.Table.from_pandas(block, schema=table.schema, preserve_index=False)
            )
    return rows
