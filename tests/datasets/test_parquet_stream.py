"""Streaming to Parquet: atomic, in the memory of one block."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from deep_interest.datasets.parquet_stream import stream_parquet
from deep_interest.io.atomic import atomic_path
from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.impressions import impression_blocks


def write_parquet(blocks, path: Path) -> int:
    """Stream blocks to a file as the datasets do."""
    with atomic_path(path, checksum=True) as temporary:
        return stream_parquet(blocks, temporary, name=path)


@pytest.mark.slow
def test_blocks_are_read_back_in_order_with_their_types(tmp_path: Path):
    config = SimulationConfig(users=250, block_users=100)
    expected = pd.concat(impression_blocks(config), ignore_index=True)

    rows = write_parquet(impression_blocks(config), tmp_path / "deep" / "impressions.parquet")

    assert rows == len(expected)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "deep" / "impressions.parquet"), expected)
    assert pq.ParquetFile(tmp_path / "deep" / "impressions.parquet").num_row_groups == 3


def test_the_same_simulation_gives_the_same_bytes(tmp_path: Path):
    config = SimulationConfig(users=150, block_users=100)
    for name in ("one", "two"):
        write_parquet(behavior_blocks(config), tmp_path / name)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_an_error_in_the_stream_keeps_the_old_file(tmp_path: Path):
    write_parquet([pd.DataFrame({"a": [1]})], tmp_path / "table.parquet")

    def failing() -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"a": [2, 3]})
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_parquet(failing(), tmp_path / "table.parquet")

    assert sorted(path.name for path in tmp_path.iterdir()) == [".table.parquet.sha256", "table.parquet"]
    assert pd.read_parquet(tmp_path / "table.parquet").a.tolist() == [1]


def test_a_stream_without_blocks_is_an_error_and_an_empty_block_is_not(tmp_path: Path):
    with pytest.raises(ValueError, match="no blocks to write"):
        write_parquet([], tmp_path / "table.parquet")

    assert write_parquet([pd.DataFrame({"a": pd.Series(dtype="int64")})], tmp_path / "table.parquet") == 0
    assert pd.read_parquet(tmp_path / "table.parquet").a.dtype == "int64"


@pytest.mark.parametrize(
    "block", [pd.DataFrame({"b": [1]}), pd.DataFrame({"a": ["x"]}), pd.DataFrame({"a": [1], "b": [2]})]
)
def test_a_block_of_another_schema_is_an_error(tmp_path: Path, block: pd.DataFrame):
    with pytest.raises(ValueError, match=r"a block has the columns .* expected .*int64"):
        write_parquet([pd.DataFrame({"a": [1]}), block], tmp_path / "table.parquet")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [behavior_blocks, impression_blocks])
def test_memory_does_not_depend_on_the_number_of_users(tmp_path: Path, blocks):
    def peak(users: int) -> int:
        config = SimulationConfig(users=users, block_users=2_000, mean_impressions=20)
        next(blocks(config))  # computes the catalogue and the bias before the measurement
        tracemalloc.start()
        write_parquet(blocks(config), tmp_path / "table.parquet")
        _, peak_memory = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak_memory

    assert peak(16_000) < 1.3 * peak(4_000)
