"""Datasets of the encoded log and features: folders of arrays that nodes map into memory."""

from pathlib import Path

from deep_interest.datasets.folder import LocalDataset
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.storage import load_features, load_log, save_features, save_log


class BehaviorLogFolder(LocalDataset[BehaviorLog, BehaviorLog]):
    """Behaviour log in compressed sparse row (CSR) format."""

    def read(self, path: Path) -> BehaviorLog:
        return load_log(path)

    def write(self, data: BehaviorLog, path: Path) -> None:
        save_log(data, path)


class FeatureTablesFolder(LocalDataset[FeatureTables, FeatureTables]):
    """Feature schema and feature codes of items and users."""

    def read(self, path: Path) -> FeatureTables:
        return load_features(path)

    def write(self, data: FeatureTables, path: Path) -> None:
        save_features(data, path)
