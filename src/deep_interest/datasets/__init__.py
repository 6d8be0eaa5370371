"""Kedro datasets for what kedro-datasets do not have; no load executes code from a file.

All other entries of the catalog are kedro-datasets, which `checked` gives atomic writes and checksums.
"""

from typing import Any

from deep_interest.datasets.checkpoint import CheckpointFile
from deep_interest.datasets.encoded import BehaviorLogFolder, FeatureTablesFolder
from deep_interest.datasets.partitions import JSONFiles
from deep_interest.datasets.raw import RawFile
from deep_interest.datasets.registry import RegistryFolder
from deep_interest.datasets.streams import DayFolders, ParquetFolder, ScoresFile


def __getattr__(name: str) -> Any:
    """Import ``ChartFile`` when it is used: it needs Plotly, which most runs do not."""
    if name == "ChartFile":
        from deep_interest.datasets.charts import ChartFile  # noqa: PLC0415

        return ChartFile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BehaviorLogFolder",
    "ChartFile",
    "CheckpointFile",
    "DayFolders",
    "FeatureTablesFolder",
    "JSONFiles",
    "ParquetFolder",
    "RawFile",
    "RegistryFolder",
    "ScoresFile",
]
