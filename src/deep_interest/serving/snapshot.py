"""What a service needs of a version: its model, and the log and the features in its vocabularies, as memory-mapped arrays.

    <version>.<last day>/
        version/           a copy of the version in the registry
        log/, features/    codes of the behaviours, items and users, ``.npy``
        ids/               users.parquet, items.parquet, and snapshot.json with facts such as the feature columns

Each of these folders has its ``SHA256SUMS``. A snapshot is written once and never changed, so that any number of processes can map it.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pydantic import BaseModel

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.io.checksums import damage_of
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.storage import load_features, load_log, save_features, save_log
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.serving.encoder import Encoder
from deep_interest.serving.version import Version, read_version

_FACTS = "snapshot.json"


class SnapshotFacts(BaseModel):
    """Facts about a snapshot.

    Attributes:
        experiment: ``DATASET.MODEL``.
        version: id of the version.
        columns: feature columns.
        max_len: maximum number of behaviours in a history.
        log_end: time of the newest behaviour of the log; later ones are events.
        last_day: last day of the log.
    """

    experiment: str
    version: str
    columns: FeatureColumns
    max_len: int
    log_end: int
    last_day: str


@dataclass(frozen=True)
class Snapshot:
    """A version with the current log.

    Attributes:
        facts: facts about it.
        version: the version.
        log, features: the log and the feature codes in the version's vocabularies.
        encoder: vocabularies of the ids and of the features.
    """

    facts: SnapshotFacts
    version: Version
    log: BehaviorLog
    features: FeatureTables
    encoder: Encoder


def save_snapshot(
    folder: Path, facts: SnapshotFacts, version: Version, log: BehaviorLog, features: FeatureTables,
    users: Vocabulary, items: Vocabulary,
) -> None:  # fmt: skip
    """Write a snapshot atomically.

    Raises:
        InputError: the disk is full.
    """
    with atomic_path(folder, directory=True) as temporary:
        (temporary / "version").mkdir()
        for file in version.folder.iterdir():  # `copytree` would not say that the disk is full
            shutil.copy(file, temporary / "version")
        save_log(log, temporary / "log")
        save_features(features, temporary / "features")
        with atomic_path(temporary / "ids", directory=True) as ids:
            for name, vocabulary in (("users", users), ("items", items)):
                pd.DataFrame({"id": vocabulary.values}).to_parquet(ids / f"{name}.parquet")
            (ids / _FACTS).write_text(facts.model_dump_json(indent=1) + "\n", encoding="utf-8")


def load_snapshot(folder: Path, *, verify: bool = True) -> Snapshot:
    """Read a snapshot; its arrays are memory-mapped.

    Args:
        folder: folder of the snapshot.
        verify: whether its files are compared with their checksums first.

    Raises:
        InputError: a file is missing or has changed.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such snapshot; start the service again, which writes it")
    for part in ("log", "features", "ids") if verify else ():
        if damage := damage_of(folder / part):
            raise InputError(
                f"{folder / part}: {damage}; delete the folder {folder.name} and start the service again, which writes a new one"
            )
    facts = SnapshotFacts.model_validate_json((folder / "ids" / _FACTS).read_text(encoding="utf-8"))
    version = read_version(folder / "version")
    users, items = (
        Vocabulary(pd.Index(pd.read_parquet(folder / "ids" / f"{name}.parquet")["id"]))
        for name in ("users", "items")
    )
    vocabularies = FieldVocabularies(version.vocabularies().fields, frozen=True)
    return Snapshot(
        facts, version, load_log(folder / "log"), load_features(folder / "features"),
        Encoder(users, items, vocabularies, facts.columns),
    )  # fmt: skip
