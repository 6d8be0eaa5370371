"""The folder of an engine while other processes run."""

import pandas as pd
import pytest

from deep_interest.engines.engine_input import EngineInput
from deep_interest.io.atomic import clear_unfinished_below

pytestmark = pytest.mark.cluster


def test_a_run_that_starts_meanwhile_does_not_remove_the_folder_of_the_engine(duckdb, tmp_path):
    folder = tmp_path / "behaviors"
    folder.mkdir()
    pd.DataFrame({"user": [1, 2, 3]}).to_parquet(folder / "part-00000.parquet")
    engine = EngineInput(duckdb.read_parquet(folder / "*.parquet"), folder, rows_per_partition=2).engine()
    clear_unfinished_below(tmp_path)
    assert engine.folder.is_dir()
    assert engine.partitions == 2
