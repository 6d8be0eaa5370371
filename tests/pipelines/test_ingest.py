"""Tables that are read into a workspace, while other processes run."""

from pathlib import Path

import pandas as pd
import pytest
from support.tables import DECLARATION, FEATURES, write

from deep_interest.io.atomic import clear_unfinished_below
from deep_interest.pipelines.ingest import nodes
from deep_interest.pipelines.parameters import DatasetParameters, IngestParameters


@pytest.mark.slow
def test_a_run_that_starts_meanwhile_does_not_remove_the_workspace(tmp_path, monkeypatch):
    """This includes a run that the locks refuse, as it clears the files of killed runs first."""
    (tmp_path / "raw/shop").mkdir(parents=True)
    write(tmp_path / "raw/shop")
    settings = DatasetParameters.model_validate(
        {
            "title": "Shop",
            "protocol": {"name": "by_day"},
            "source": DECLARATION,
            "features": FEATURES.model_dump(),
        }
    )
    read_large_tables = nodes.read_large_tables

    def another_run_starts(*arguments, **options):
        clear_unfinished_below(tmp_path / "data")
        return read_large_tables(*arguments, **options)

    monkeypatch.setattr(nodes, "read_large_tables", another_run_starts)
    ingest = IngestParameters(memory_limit="500MB", workspace=str(tmp_path / "data"))
    behaviors, *_ = nodes.make_ingest_tables("shop")(tmp_path / "raw", settings, ingest)
    clear_unfinished_below(tmp_path / "data")
    assert isinstance(behaviors, Path)
    assert len(pd.read_parquet(behaviors)) == 2
