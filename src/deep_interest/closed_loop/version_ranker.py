"""A registered version as a ranker of the simulated shop: all visits of a batch in a few forward passes."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch

from deep_interest.closed_loop.rankers import VisitBatch
from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog, run_offsets
from deep_interest.logs.encoding import FeatureTables, code_column
from deep_interest.logs.feature_columns import GAP, ITEM_ID, USER_ID, FeatureColumns
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.serving.version import Version
from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.users import user_block
from deep_interest.simulation.visits import history_ends
from deep_interest.simulation.world import PIDS, make_items, make_world
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict
from deep_interest.training.parameters import RunParameters, TrainingOptions
from deep_interest.training.runs import prepare_device

CONTEXT = ("pid", "hour", "slot")
"""Context features that the shop knows. A ranker scores all candidates as in the first slot: that is how it learns the effect of the slot
from the log, and does not let it decide."""
_CLIPPED = 1e-6


class VersionRanker:
    """Predicts with a version what evaluation would predict, with the histories up to each visit.

    Args:
        version: the version.
        config: parameters of the simulation.
        columns: feature columns of the data; of the context features those are used that the version has.
        run: device and batch size.

    Raises:
        InputError: a feature is not known in the shop.
    """

    def __init__(
        self, version: Version, config: SimulationConfig, columns: FeatureColumns, run: RunParameters
    ) -> None:
        self.version, self._run = version.id, run
        self._schema = version.schema
        columns = columns.model_copy(update={"context": tuple(field.name for field in self._schema.context)})
        check_features(columns)
        self._columns = columns
        self._device = prepare_device(run)
        self._model, self._calibration = version.model().to(self._device), version.calibration()
        self._max_len = TrainingOptions.model_validate(version.manifest["training"]).max_len
        self._vocabularies = FieldVocabularies(version.vocabularies().fields, frozen=True)
        items = make_items(config).set_index("item", drop=False).loc[make_world(config).item_id]
        self._items = {
            name: self._with_unknown(name, items["item" if name == ITEM_ID else name])
            for name in columns.item
        }
        values = {"pid": np.arange(1, PIDS + 1), "hour": np.arange(24), "slot": np.ones(1, np.int64)}
        self._context = {name: self._codes(name, pd.Series(values[name])) for name in columns.context}

    def scores(self, batch: VisitBatch) -> np.ndarray:
        """Return the predicted CTR of each candidate in the first slot, ``(V, C)``."""
        visits, C = batch.visits, batch.visits.items.shape[1]
        ends = history_ends(batch.behaviors, visits.user, visits.second)
        store = FeatureStore.build(*self._encoded(batch), self._device)
        offsets = run_offsets(batch.behaviors.user + 1, len(batch.block.users.ids) + 1)
        of_visit: Mapping[str, np.ndarray] = {
            "pid": visits.pid,
            "hour": visits.hour,
            "slot": np.zeros(len(visits), np.int64),
        }

        def repeated(values: np.ndarray, dtype: type) -> torch.Tensor:
            return torch.from_numpy(np.repeat(values.astype(dtype), C)).to(self._device)

        samples = SampleSet(
            store, self._max_len,
            user=repeated(visits.user + 1, np.int32),
            item=torch.from_numpy((visits.items.ravel() + 1).astype(np.int32)).to(self._device),
            history_end=repeated(ends - offsets[visits.user + 1], np.int32),
            labels=torch.zeros(len(visits) * C, device=self._device),
            context={name: repeated(codes[of_visit[name]], np.int32) for name, codes in self._context.items()},
            time=repeated(batch.config.origin + visits.second, np.int64) if store.needs_time else None,
        )  # fmt: skip
        ctr = predict(self._model, samples, batch_size=self._run.evaluation_batch_size)
        return clipped(self._calibration(ctr)).reshape(len(visits), C)

    def _encoded(self, batch: VisitBatch) -> tuple[BehaviorLog, FeatureTables]:
        behaviors, columns = batch.behaviors, self._columns
        item = behaviors.item + 1
        fields = {field.name: self._items[field.name][item] for field in self._schema.shared}
        time = batch.config.origin + behaviors.second
        own = {"hour": time // 3600 % 24, "weekday": (time // SECONDS_PER_DAY + 3) % 7 + 1}
        fields |= {name: self._codes(name, pd.Series(own[name])) for name in columns.own_columns}
        offsets = run_offsets(behaviors.user + 1, len(batch.block.users.ids) + 1)
        log = BehaviorLog(offsets, fields, time if GAP in self._schema.derived else None)
        table = user_block(batch.config, batch.block.number)
        users = {
            name: self._with_unknown(name, table["user" if name == USER_ID else name])
            for name in columns.profile
        }
        return log, FeatureTables(self._schema, self._items, users)

    def _with_unknown(self, name: str, column: pd.Series) -> np.ndarray:
        """Return the codes of a column with a leading 0, the code of the unknown item or user."""
        return np.concatenate([np.zeros(1, np.int32), self._codes(name, column)])

    def _codes(self, name: str, column: pd.Series) -> np.ndarray:
        return code_column(self._vocabularies, name, column.reset_index(drop=True), self._columns).codes


def clipped(ctr: np.ndarray) -> np.ndarray:
    """Return probabilities strictly between 0 and 1, so that all candidates have a price."""
    return np.clip(ctr, _CLIPPED, 1 - _CLIPPED)


def check_features(columns: FeatureColumns) -> None:
    """Check that the shop knows all features.

    Raises:
        InputError: names the features that it does not know.
    """
    unknown = [name for name in columns.context if name not in CONTEXT]
    unknown += [name for name in columns.own_columns if name not in ("hour", "weekday")]
    if unknown or columns.multi_hot or columns.standardised:
        names = ", ".join([*unknown, *columns.multi_hot, *columns.standardised])
        raise InputError(
            f"features: the simulated shop has no {names}; its context features are {', '.join(CONTEXT)}, those of a behaviour hour, weekday, "
            "gap and position"
        )
