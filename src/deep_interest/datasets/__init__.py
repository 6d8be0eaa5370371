"""Kedro datasets for what kedro-datasets do not have; no load executes code from a file.

All other entries of the catalog are kedro-datasets, which `checked` gives atomic writes and checksums. Each class is imported
when it is used, so that commands that need none of them start quickly.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "BehaviorLogFolder": "encoded",
    "ChartFile": "charts",
    "CheckpointFile": "checkpoint",
    "DayFolders": "streams",
    "EngineTable": "engine_table",
    "FeatureTablesFolder": "encoded",
    "JSONFiles": "partitions",
    "MappedSamples": "mapped_samples",
    "OptionalCSV": "optional",
    "ParquetFolder": "streams",
    "RawFile": "raw",
    "RegistryFolder": "registry",
    "SamplesFolder": "samples_folder",
    "ScoresFile": "streams",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
