"""The hash as a function that engines call with whole columns."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from deep_interest.logs.hashing import Purpose, hash63


def hash_function(
    kind: Literal["pyarrow", "pandas"],
    wrap: Callable[[np.ndarray], Any],
    seed: int,
    purpose: Purpose,
    keys: tuple[Any, ...],
) -> Any:
    """Return an expression of `logs.hashing.hash63`.

    Args:
        kind: type of the columns with which the engine calls functions; ibis supports ``pyarrow`` on DuckDB, and ``pandas`` on
            Spark (where a ``pyarrow`` function would be called for each row).
        wrap: constructor of a column of this type.
        seed, purpose: see `hash63`.
        keys: one to three integer columns.
    """
    import ibis  # noqa: PLC0415

    def hashed(*columns: Any) -> Any:
        return wrap(hash63(seed, purpose, *(np.asarray(column) for column in columns)))

    of_arity: dict[int, Callable[..., Any]] = {
        1: lambda a: hashed(a),
        2: lambda a, b: hashed(a, b),
        3: lambda a, b, c: hashed(a, b, c),
    }
    define = getattr(ibis.udf.scalar, kind)
    name = f"hash63_{purpose.name.lower()}_{seed}_{len(keys)}"
    function = define(
        of_arity[len(keys)], name=name, signature=(("int64",) * len(keys), "int64")
    )
    return function(*(key.cast("int64") for key in keys))
