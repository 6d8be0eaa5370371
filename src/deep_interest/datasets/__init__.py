"""Kedro datasets for the project's files: every save is atomic, and no load executes code from a file."""

from deep_interest.datasets.checkpoint import CheckpointFile
from deep_interest.datasets.encoded import BehaviorLogFolder, FeatureTablesFolder
from deep_interest.datasets.raw import RawFile
from deep_interest.datasets.registry import RegistryFolder
from deep_interest.datasets.reports import ChartFile, ChartFiles, JSONFile, JSONFiles, TextFile
from deep_interest.datasets.tables import CSVTable, DayFolders, ParquetFolder, ParquetTable, ScoresFile

__all__ = [
    "BehaviorLogFolder",
    "CSVTable",
    "ChartFile",
    "ChartFiles",
    "CheckpointFile",
    "DayFolders",
    "FeatureTablesFolder",
    "JSONFile",
    "JSONFiles",
    "ParquetFolder",
    "ParquetTable",
    "RawFile",
    "RegistryFolder",
    "ScoresFile",
    "TextFile",
]
