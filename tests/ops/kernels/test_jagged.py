import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_interest.ops.kernels.jagged import segment_partition, shared_segment_partition

lengths = st.lists(st.integers(0, 30), max_size=40)


@settings(deadline=None)
@given(lengths, st.integers(1, 8))
def test_parts_share_all_runs_and_have_about_as_many_places(lengths, parts):
    offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))
    shares = [segment_partition(offsets, part, parts) for part in range(parts)]
    assert [run for first, last in shares for run in range(first, last)] == list(range(len(lengths)))
    for first, last in shares:
        assert abs(offsets[last] - offsets[first] - offsets[-1] / parts) <= max(lengths, default=0) + 1


@settings(deadline=None)
@given(lengths, st.integers(1, 8), st.data())
def test_views_of_one_row_are_in_one_part(lengths, parts, data):
    offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))
    starts = np.array([data.draw(st.integers(0, 3)) for _ in lengths], np.int64)
    starts.sort()
    shares = [shared_segment_partition(offsets, starts, part, parts) for part in range(parts)]
    assert [run for first, last in shares for run in range(first, last)] == list(range(len(lengths)))
    of_parts = [set(starts[first:last]) for first, last in shares]
    assert sum(map(len, of_parts)) == len(set(starts))
