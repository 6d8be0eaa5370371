"""Time spent on compiling kernels, which is not part of the speed of training."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from numba.core import event

_COMPILE = "numba:compile"  # a kernel that is not in the cache is being compiled
_LOCK = "numba:compiler_lock"  # held while a kernel is compiled, or loaded from the cache


class CompilationTimer(event.Listener):
    """Measures the time in which this thread compiles kernels or loads them from the cache, as a context manager.

    Args:
        on_compile: called when the first kernel is about to be compiled; loading one from the cache is too fast to mention.

    Attributes:
        seconds: time so far.
    """

    def __init__(self, on_compile: Callable[[], None] | None = None) -> None:
        self.seconds = 0.0
        self._on_compile = on_compile
        self._thread = threading.get_ident()
        self._depth, self._start = 0, 0.0

    def __enter__(self) -> Self:
        for kind in (_COMPILE, _LOCK):
            event.register(kind, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in (_COMPILE, _LOCK):
            event.unregister(name, self)

    def on_start(self, event: Any) -> None:
        """Start the clock; a kernel that calls others compiles them within its own compilation."""
        if threading.get_ident() != self._thread:
            return
        if event.kind == _LOCK:
            if self._depth == 0:
                self._start = time.perf_counter()
            self._depth += 1
        elif self._on_compile is not None:
            on_compile, self._on_compile = self._on_compile, None
            on_compile()

    def on_end(self, event: Any) -> None:
        """Stop the clock."""
        if threading.get_ident() != self._thread or event.kind != _LOCK:
            return
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._start
