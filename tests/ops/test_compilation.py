"""The time of compilation is that of this thread, from the outside of nested compilations."""

import threading
import time

import numpy as np
import pytest
from numba import njit
from numba.core import event

from deep_interest.ops.compilation import CompilationTimer


def compile_a_function() -> float:
    """Compile a function that calls another one, and return the seconds that the call took."""

    @njit
    def inner(x):
        return x * 2

    @njit
    def outer(values):
        return inner(values).sum()

    start = time.perf_counter()
    assert outer(np.ones(3)) == 6
    return time.perf_counter() - start


@pytest.mark.slow
def test_compilation_is_measured_and_announced_once():
    announced = []
    with CompilationTimer(on_compile=lambda: announced.append(True)) as timer:
        seconds = compile_a_function()
        measured = timer.seconds
        compile_a_function()
    assert 0.3 * seconds < measured <= seconds  # once, although one function is compiled within the other
    assert timer.seconds > measured
    assert announced == [True]
    total = timer.seconds
    compile_a_function()
    assert timer.seconds == total


def test_loading_from_the_cache_is_measured_but_not_announced():
    announced = []
    with (
        CompilationTimer(on_compile=lambda: announced.append(True)) as timer,
        event.trigger_event("numba:compiler_lock"),  # held while a kernel is loaded
    ):
        time.sleep(0.02)
    assert timer.seconds >= 0.02
    assert announced == []


@pytest.mark.slow
def test_the_compilation_of_another_thread_does_not_count():
    with CompilationTimer() as timer:
        other = threading.Thread(target=compile_a_function)
        other.start()
        other.join()
    assert timer.seconds == 0
