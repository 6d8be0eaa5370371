"""DuckDB: one process, one partition in memory at a time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.engines.engine import PARTITION, Build, Engine
from deep_interest.logs.hashing import FIRST_FACTOR, GOLDEN, SECOND_FACTOR, Purpose, first_state

if TYPE_CHECKING:
    import ibis.expr.types as ir


_WRAP = f"& {2**64 - 1}::UHUGEINT)::UBIGINT"  # arithmetic modulo 2^64
_MACROS = (  # the steps of `logs.hashing.hash64`
    f"deep_interest_times(x, factor) AS ((x::UHUGEINT * factor::UHUGEINT) {_WRAP}",
    f"deep_interest_first(x) AS deep_interest_times(xor(x, x >> 30), {FIRST_FACTOR}::UBIGINT)",
    f"deep_interest_second(x) AS deep_interest_times(xor(x, x >> 27), {SECOND_FACTOR}::UBIGINT)",
    "deep_interest_mix(x) AS xor(deep_interest_second(deep_interest_first(x)), deep_interest_second(deep_interest_first(x)) >> 31)",
    f"deep_interest_step(state, key) AS deep_interest_mix(((xor(state, key)::UHUGEINT + {GOLDEN}::UHUGEINT) {_WRAP})",
)


class DuckDBEngine(Engine):
    """An engine in this process; see `Engine`."""

    def __init__(self, connection: Any, folder: Path, partitions: int) -> None:
        super().__init__(connection, folder, partitions)
        for macro in _MACROS:
            connection.raw_sql(f"CREATE OR REPLACE TEMP MACRO {macro}")

    def hash63(self, seed: int, purpose: Purpose, *keys: Any) -> Any:
        """Return an expression of `logs.hashing.hash63` in SQL, a third of the time of a Python function."""
        import ibis  # noqa: PLC0415

        def step(state: Any, key: Any) -> Any: ...

        call = ibis.udf.scalar.builtin(
            step, name="deep_interest_step", signature=(("uint64", "uint64"), "uint64")
        )
        state: Any = ibis.literal(first_state(seed, purpose), "uint64")
        for key in keys:
            state = call(state, key.cast("uint64"))
        return (state.cast("uint64") >> ibis.literal(1, "uint64")).cast("int64")

    def call(self, name: str, function: Callable[..., np.ndarray], *columns: Any) -> Any:
        """Return an expression of a function, which DuckDB calls with Arrow arrays."""
        import ibis  # noqa: PLC0415

        def one(a: pa.ChunkedArray) -> pa.Array:
            return pa.array(function(np.asarray(a)))

        def two(a: pa.ChunkedArray, b: pa.ChunkedArray) -> pa.Array:
            return pa.array(function(np.asarray(a), np.asarray(b)))

        def three(a: pa.ChunkedArray, b: pa.ChunkedArray, c: pa.ChunkedArray) -> pa.Array:
            return pa.array(function(np.asarray(a), np.asarray(b), np.asarray(c)))

        of_arity: dict[int, Callable[..., Any]] = {1: one, 2: two, 3: three}
        signature = (("int64",) * len(columns), "int64")
        scalar = ibis.udf.scalar.pyarrow(of_arity[len(columns)], name=name, signature=signature)
        return scalar(*(column.cast("int64") for column in columns))

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
        """Read, map and write as many partitions at a time as DuckDB has threads."""

        def map_partition(number: int) -> None:
            mapped = function(pq.read_table(self._folder(source, number), partitioning=None))
            self._folder(name, number).mkdir(parents=True)
            pq.write_table(
                mapped.cast(_with_dictionaries(schema, mapped)), self._folder(name, number) / "part.parquet"
            )

        present = [number for number in range(self.partitions) if self._folder(source, number).exists()]
        threads = int(self.connection.raw_sql("SELECT current_setting('threads')").fetchone()[0])
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(map_partition, present):
                pass

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


def _with_dictionaries(schema: pa.Schema, table: pa.Table) -> pa.Schema:
    """Return the schema with those columns as dictionaries that are dictionaries in a table: they are written and read faster."""
    kinds = [table.schema.field(field.name).type for field in schema]
    return pa.schema(
        [
            field.with_type(kind) if pa.types.is_dictionary(kind) else field
            for field, kind in zip(schema, kinds, strict=True)
        ]
    )
