"""What the data path needs from an engine."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from deep_interest.logs.hashing import Purpose, below, hash63, hash64

if TYPE_CHECKING:
    import ibis.expr.types as ir

PARTITION = "partition"
"""Column of all stored tables: the partition of the user."""

Build = Callable[..., Any]
"""Expression of a stored table, from the tables that it reads."""


class Engine(ABC):
    """An ibis connection, and a folder of tables in partitions by user.

    Args:
        connection: ibis backend.
        folder: folder of the stored tables, which all processes of the engine can read and write.
        partitions: number of partitions of the users.
    """

    def __init__(self, connection: Any, folder: Path, partitions: int) -> None:
        self.connection, self.folder, self.partitions = connection, folder, partitions

    def hash63(self, seed: int, purpose: Purpose, *keys: Any) -> Any:
        """Return an expression of `logs.hashing.hash63` of one or two integer columns."""
        return self.call(f"hash63_{purpose.name.lower()}_{seed}", partial(hash63, seed, purpose), *keys)

    def below(self, seed: int, purpose: Purpose, bound: Any, *keys: Any) -> Any:
        """Return an expression of a number below an integer column ``bound``, by a hash of up to two integer columns; 0 if it is 0."""

        def chosen(bounds: np.ndarray, *values: np.ndarray) -> np.ndarray:
            return below(hash64(seed, purpose, *values), bounds)

        return self.call(f"below_{purpose.name.lower()}_{seed}", chosen, bound, *keys)

    @abstractmethod
    def call(self, name: str, function: Callable[..., np.ndarray], *columns: Any) -> Any:
        """Return an expression of a function of up to three int64 arrays, which has no state.

        Args:
            name: name of the function, which is the same for equal functions only.
            function: returns an int64 array as long as its arguments.
            columns: integer columns without missing values.
        """

    @abstractmethod
    def store(self, name: str, build: Build, inputs: Sequence[str] = ()) -> None:
        """Store the result of an expression in partitions.

        Args:
            name: name of the new table.
            build: expression of the table, which has a column ``partition``. It combines rows of one user only, so that an
                engine can evaluate it for each partition.
            inputs: stored tables that are the arguments of ``build``; without any, it is evaluated as a whole.
        """

    @abstractmethod
    def store_mapped(
        self, name: str, function: Callable[[pa.Table], pa.Table], source: str, schema: pa.Schema
    ) -> None:
        """Apply a function to each partition of a stored table and store the results in the same partitions.

        Args:
            name: name of the new table.
            function: function of a partition without the column ``partition``.
            source: stored table.
            schema: columns of the result, without ``partition``; the function may return strings as dictionaries.
        """

    @abstractmethod
    def stored(self, name: str) -> "ir.Table":
        """Return a stored table."""

    @abstractmethod
    def table(self, table: pa.Table) -> "ir.Table":
        """Return a table of this process for use in expressions."""

    def drop(self, *names: str) -> None:
        """Remove stored tables."""
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def has_rows(self, name: str) -> bool:
        """Return whether a stored table has rows."""
        return bool(self.collect(self.stored(name).count()).as_py())

    def collect(self, expression: Any) -> pa.Table:
        """Evaluate an expression into memory."""
        return self.connection.to_pyarrow(expression)

    def partition_of(self, user: Any) -> Any:
        """Return an expression of the partition of users, by a hash of their codes."""
        return (self.hash63(0, Purpose.PARTITION, user) % self.partitions).cast("int32")
