"""Compilation of the kernels with numba, and the cache of compiled code on disk.

numba keeps compiled code next to its source (``__pycache__/*.nbi``, ``*.nbc``), or below ``NUMBA_CACHE_DIR``. By
itself it reuses that code as long as the *file* of a function is unchanged, whatever the function calls: an edited
callee would be ignored (https://github.com/numba/numba/issues/1833). Kernels call functions of other files, so here
compiled code is valid as long as no source in ``ops/kernels`` or ``ops/runtime`` has changed.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import config, extending, njit

_OPS = Path(__file__).parents[1]
_TESTED_BELOW = "0.69"  # the upper bound in pyproject.toml


def source_digest(*folders: Path) -> str:
    """Hash the Python sources in some folders and their subfolders."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.relative_to(folder.parent).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


_SOURCE_DIGEST = source_digest(_OPS / "kernels", _OPS / "runtime")


def kernel(function: Callable) -> Callable:
    """Compile a loop that Python calls; floating-point sums may be reordered.

    The innermost loop of a sum into one number must not write to an array: LLVM versions such a loop for arrays
    that may overlap, and may order the sum differently in each version, so that the result would depend on where
    the arrays are in memory.

    A kernel only calls functions that are `njit_strict`, `njit_no_refcount` or inlined (``njit(inline="always")``).
    LLVM optimises a copy of a called function for every caller, and a process links whichever copy it loads first.
    If copies were free to reorder sums, a process that compiles and one that loads from the cache would round
    differently.
    """
    return _cached_njit(function, fastmath={"contract", "reassoc", "nsz", "arcp"})


def njit_strict(function: Callable) -> Callable:
    """Compile a function that kernels call; its sums keep their order, so that all its copies round alike."""
    return _cached_njit(function, fastmath=False)  # explicit, or numba inherits the caller's


def njit_no_refcount(function: Callable) -> Callable:
    """As `njit_strict`, without reference counts, for a function that neither allocates nor returns an array.

    Counting references is an atomic operation for every row that a loop slices, unless LLVM can prove it redundant.
    """
    return _cached_njit(function, fastmath=False, _nrt=False)


def is_jit_disabled() -> bool:
    """Return whether kernels run as Python functions, with ``NUMBA_DISABLE_JIT=1``."""
    return bool(config.DISABLE_JIT)  # type: ignore[attr-defined]  # numba sets its options when it is imported


def intrinsic(python_version: Callable) -> Callable:
    """Decorate the generator of an LLVM intrinsic that kernels call.

    Args:
        python_version: function with the same result, which runs under ``NUMBA_DISABLE_JIT=1``.
    """

    def decorate(generator: Callable) -> Callable:
        return python_version if is_jit_disabled() else extending.intrinsic(generator)

    return decorate


def _cached_njit(function: Callable, **options) -> Callable:
    dispatcher = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    _set_cache_stamp(dispatcher, _SOURCE_DIGEST)
    return dispatcher


def _set_cache_stamp(dispatcher: Callable, stamp: str) -> None:
    """Let the cache of a compiled function be valid for one stamp, not for its own file's modification time and size.

    The only use of numba's private interfaces; there is no public one (https://github.com/numba/numba/issues/9304).
    Without a cache, as under ``NUMBA_DISABLE_JIT=1``, there is nothing to set.

    Raises:
        RuntimeError: numba has a cache, but not the attribute that this function sets.
    """
    if not hasattr(dispatcher, "_cache"):
        return
    file: Any = getattr(dispatcher._cache, "_cache_file", None)
    if not hasattr(file, "_source_stamp"):
        raise RuntimeError(
            f"numba {numba.__version__}: the cache of compiled code has changed; install numba<{_TESTED_BELOW}"
        )
    file._source_stamp = stamp
