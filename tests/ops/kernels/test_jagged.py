import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_interest.ops.kernels.jagged import segment_partition, shared_segment_partition

lengths = st.lists(st.integers(0, 30), max_size=40)


@settings(deadline=None)
@given(lengths, st.integers(1, 8))
def test_partitions_cover_all_segments_and_have_about_as_many_values(lengths, partitions):
    offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))
    bounds = [segment_partition(offsets, partition, partitions) for partition in range(partitions)]
    assert [segment for first, last in bounds for segment in range(first, last)] == list(range(len(lengths)))
    for first, last in bounds:
        assert abs(offsets[last] - offsets[first] - offsets[-1] / partitions) <= max(lengths, default=0) + 1


@settings(deadline=None)
@given(lengths, st.integers(1, 8), st.data())
def test_shared_segments_are_in_one_partition(lengths, partitions, data):
    offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))
    starts = np.array([data.draw(st.integers(0, 3)) for _ in lengths], np.int64)
    starts.sort()
    bounds = [
        shared_segment_partition(offsets, starts, partition, partitions) for partition in range(partitions)
    ]
    assert [segment for first, last in bounds for segment in range(first, last)] == list(range(len(lengths)))
    starts_by_partition = [set(starts[first:last]) for first, last in bounds]
    assert sum(map(len, starts_by_partition)) == len(set(starts))
