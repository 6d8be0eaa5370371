"""One thread per test process: the suite runs two of them on two cores. Without a GPU, Triton's kernels are interpreted.

Hypothesis has no deadline: on a busy machine an example that usually takes 10 ms takes longer than the default 200 ms.
"""

import json
import os
from pathlib import Path

import fsspec
import pytest
from hypothesis import settings

settings.register_profile("repository", deadline=None)
settings.load_profile("repository")

os.environ["OMP_NUM_THREADS"] = "1"
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is imported


def pytest_collection_modifyitems(config, items):
    """Mark end-to-end tests as slow, and leave those marked ``nightly`` or ``cluster`` to their own targets of make.

    For mutmut, which stops at the first failure, run the fastest tests first.
    """
    for marker in ("nightly", "cluster"):
        if not os.environ.get(f"DEEP_INTEREST_{marker.upper()}"):
            left = [item for item in items if item.get_closest_marker(marker)]
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if item not in set(left)]
    for item in items:
        if "end_to_end" in item.path.parts:
            item.add_marker(pytest.mark.slow)
    times = Path("mutmut-stats.json")
    if os.environ.get("MUTANT_UNDER_TEST") and times.exists():
        seconds = json.loads(times.read_text())["duration_by_test"]
        items.sort(key=lambda item: seconds.get(item.nodeid, 0.0))


@pytest.fixture
def memory():
    """An empty file system in memory, without folders, as object stores are."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()
