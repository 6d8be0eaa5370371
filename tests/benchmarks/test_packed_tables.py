"""The benchmark of packed tables measures their size, the memory of a version, and the lookup."""

import pytest
from packed_tables import PRECISIONS, lookup_times, peak_in_a_process


@pytest.mark.nightly
@pytest.mark.slow
def test_an_int8_version_needs_less_memory(tmp_path):
    size, peak = peak_in_a_process(tmp_path / "int8", 50_000)
    assert size == 1.1  # 22 bytes per row
    assert peak < 3.6  # 72 bytes per row
    times = lookup_times(100, rounds=1)
    assert set(times) == set(PRECISIONS)
    assert all(value > 0 for values in times.values() for value in values)
