"""Datasets of the encoded log and features: folders of arrays that nodes map into memory."""

import shutil
from pathlib import Path

from deep_interest.datasets.samples_folder import remove_stored
from deep_interest.datasets.stored_folder import StoredFolder
from deep_interest.io.atomic import atomic_path
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.storage import load_features, load_log, save_features, save_log


class BehaviorLogFolder(StoredFolder[BehaviorLog | Path, BehaviorLog]):
    """Behaviour log in compressed sparse row (CSR) format.

    A node returns the log, or the folder in which an engine has written its arrays; saving then moves them.
    """

    def read(self, path: Path) -> BehaviorLog:
        return load_log(path)

    def write(self, data: BehaviorLog | Path, path: Path) -> None:
        if isinstance(data, BehaviorLog):
            save_log(data, path)
            return
        with atomic_path(path, directory=True) as target:
            for file in data.iterdir():
                shutil.move(file, target / file.name)
        remove_stored(data)


class FeatureTablesFolder(StoredFolder[FeatureTables, FeatureTables]):
    """Feature schema and feature codes of items and users."""

    def read(self, path: Path) -> FeatureTables:
        return load_features(path)

    def write(self, data: FeatureTables, path: Path) -> None:
        save_features(data, path)
