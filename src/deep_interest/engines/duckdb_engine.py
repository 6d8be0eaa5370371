"""DuckDB: one process, one partition in memory at a time."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.engines.engine import PARTITION, Build, Engine
from deep_interest.logs.hashing import Purpose, hash63

if TYPE_CHECKING:
    import ibis.expr.types as ir


class DuckDBEngine(Engine):
    """An engine in this process; see `Engine`."""

    def hash63(self, seed: int, purpose: Purpose, *keys: Any) -> Any:
        """Return an expression of `logs.hashing.hash63`, which DuckDB calls with Arrow arrays."""
        import ibis  # noqa: PLC0415

        def one(a: pa.ChunkedArray) -> pa.Array:
            return pa.array(hash63(seed, purpose, np.asarray(a)))

        def two(a: pa.ChunkedArray, b: pa.ChunkedArray) -> pa.Array:
            return pa.array(hash63(seed, purpose, np.asarray(a), np.asarray(b)))

        of_arity: dict[int, Callable[..., Any]] = {1: one, 2: two}
        name = f"hash63_{purpose.name.lower()}_{seed}"
        signature = (("int64",) * len(keys), "int64")
        function = ibis.udf.scalar.pyarrow(of_arity[len(keys)], name=name, signature=signature)
        return function(*(key.cast("int64") for key in keys))

    def table(self, table: pa.Table) -> "ir.Table":
        """Return a table of this process for use in expressions."""
        import ibis  # noqa: PLC0415

        return ibis.memtable(table)

    def store(self, name: str, build: Build, inputs: Sequence[str] = ()) -> None:
        """Write one folder of Parquet for each partition, one after another if the expression reads stored tables."""
        if not inputs:
            self.connection.to_parquet(build(), self.folder / name, partition_by=PARTITION)
            return
        for number in range(self.partitions):
            if not any(self._folder(source, number).exists() for source in inputs):
                continue
            tables = [self._partition(source, number) for source in inputs]
            self._folder(name, number).mkdir(parents=True)
            self.connection.to_parquet(
                build(*tables).drop(PARTITION), self._folder(name, number) / "part.parquet"
            )

    def store_mapped(
        self, name: str, function: Callable[[pa.Table], pa.Table], source: str, schema: pa.Schema
    ) -> None:
        """Read, map and write one partition after another."""
        for number in range(self.partitions):
            if not self._folder(source, number).exists():
                continue
            mapped = function(pq.read_table(self._folder(source, number), partitioning=None))
            self._folder(name, number).mkdir(parents=True)
            pq.write_table(mapped.cast(schema), self._folder(name, number) / "part.parquet")

    def stored(self, name: str) -> "ir.Table":
        """Return a stored table."""
        table = self.connection.read_parquet(
            self.folder / name / "*" / "*.parquet", hive_partitioning=True, hive_types_autocast=False
        )
        return table.mutate(**{PARTITION: table[PARTITION].cast("int32")})

    def _folder(self, name: str, number: int) -> Any:
        return self.folder / name / f"{PARTITION}={number}"

    def _partition(self, name: str, number: int) -> "ir.Table":
        import ibis  # noqa: PLC0415

        if not self._folder(name, number).exists():
            return self.stored(name).limit(0)
        table = self.connection.read_parquet(
            self._folder(name, number) / "*.parquet", hive_partitioning=False
        )
        return table.mutate(**{PARTITION: ibis.literal(number, "int32")})
