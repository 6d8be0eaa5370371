"""Read what an engine has stored, one partition of the users at a time."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.engines.engine import PARTITION, Engine


def read_partition(engine: Engine, name: str, number: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Return columns of a partition of a stored table; without rows if the partition does not exist.

    Args:
        engine: engine.
        name: stored table.
        number: partition.
        columns: columns to read; those that the table does not have are ignored. All if None.
    """
    folder = engine.folder / name / f"{PARTITION}={number}"
    exists = folder.exists()
    files = sorted((folder if exists else engine.folder / name).glob("**/*.parquet"))
    schema = pq.read_schema(files[0])
    chosen = schema.names if columns is None else [column for column in columns if column in schema.names]
    if not exists:
        return pa.schema([schema.field(column) for column in chosen]).empty_table()
    return pq.read_table(folder, columns=chosen, partitioning=None)


def partitions(engine: Engine, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield all partitions of a stored table; see `read_partition`."""
    for number in range(engine.partitions):
        yield read_partition(engine, name, number, columns)


def by_segment(log: pa.Table) -> pa.Table:
    """Return a partition of the log, sorted by segment and position."""
    segment, position = segments(log).astype(np.int64), log["position"].to_numpy()
    key = (segment << 32) | position
    return log if (key[1:] >= key[:-1]).all() else log.take(pa.array(np.argsort(key, kind="stable")))


def segments(log: pa.Table) -> np.ndarray:
    """Return the segment of each behaviour of the log, ``(n,)`` int32: its user, or the given history that it is part of."""
    return log["segment" if "segment" in log.column_names else "user"].to_numpy()
