"""The nodes of the samples where the environment reads behaviours and impressions on DuckDB or Spark."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from deep_interest.engines import vocabularies
from deep_interest.engines.engine_input import EngineInput
from deep_interest.engines.path import make_samples
from deep_interest.errors import InputError
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.samples.neighbours import add_neighbours

logger = logging.getLogger(__name__)


def user_ids_of(behaviors: EngineInput, impressions: EngineInput | None) -> pd.DataFrame:
    """Return the user ids of the events."""
    shown = None if impressions is None else impressions.table
    return vocabularies.user_ids(behaviors.connection, behaviors.table, shown)


def samples_on_engine(
    behaviors: EngineInput, impressions: EngineInput | None, entities: CanonicalTables, user_ids: pd.DataFrame, item_ids: pd.DataFrame,
    left_out: dict[str, Any], dataset: DatasetParameters,
) -> tuple[Path, FeatureTables, Path, pd.DataFrame]:  # fmt: skip
    """Return the folder of the log, features, the folder of the samples and their summary."""
    _require_hashed(dataset.protocol)
    others = [] if impressions is None else [impressions]
    engine = behaviors.engine(*others)
    logger.info("samples on %s in %d partitions", behaviors.connection.name, engine.partitions)
    try:
        made = make_samples(
            engine, behaviors.table, None if impressions is None else impressions.table, entities=entities,
            user_ids=user_ids, item_ids=item_ids, left_out=left_out, protocol=dataset.protocol, features=dataset.features,
        )  # fmt: skip
        if dataset.features.neighbours is not None:
            made = add_neighbours(made, max_len=dataset.features.neighbours)
    except BaseException:
        shutil.rmtree(engine.folder, ignore_errors=True)
        raise
    return made.log, made.features, made.samples, made.summary


def _require_hashed(protocol: ProtocolParameters) -> None:
    """Check that the configuration does not ask for draws that depend on the order of the rows."""
    if "sampling" in protocol.model_fields_set and not protocol.hashed:
        raise InputError(
            f"protocol.sampling: found {protocol.sampling}, but engines have no order of the rows, so that random choices are made by "
            "hash; set sampling: hashed, or remove it"
        )
