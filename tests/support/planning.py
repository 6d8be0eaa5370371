"""A small dataset for plans: its counts, its tables, and what is planned for it."""

from dataclasses import replace

import numpy as np
import pandas as pd

from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.models.registry import model_config
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.planning.counts import Counts
from deep_interest.planning.measurements import DataPath, Line, Measurements, ModelSpeed
from deep_interest.planning.stages import Machine, Workload
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.training.parameters import TrainingOptions

COLUMNS = FeatureColumns(item=("item_id", "category"), behavior=("item_id", "category", "gap"))
COUNTS = Counts(users=10, items=50, behaviors=200, samples=380, values={"category": 7})
MACHINE = Machine(memory=16_000_000_000, cores=4)
# Seconds and bytes with round numbers, so that costs can be calculated by hand.
MEASURED = Measurements(
    machine="4 cores",
    commit="abc",
    ingest={
        "memory": DataPath(seconds=Line(fixed=1, per_row=1e-6), memory=Line(fixed=1e8, per_row=200), cores=1),
        "disk": DataPath(
            seconds=Line(fixed=2, per_row=3e-6),
            memory=Line(fixed=2e9, per_row=1),
            stored=20,
            cores=2,
        ),
    },
    samples={
        "numpy": DataPath(seconds=Line(fixed=0, per_row=1e-6), memory=Line(fixed=1e8, per_row=100), cores=1),
        "duckdb": DataPath(
            seconds=Line(fixed=1, per_row=2e-6),
            memory=Line(fixed=1e9, per_row=10),
            stored=30,
            cores=2,
        ),
        "spark": DataPath(
            seconds=Line(fixed=10, per_row=4e-6), memory=Line(fixed=3e9, per_row=5), stored=30, cores=2
        ),
    },
    canonical_bytes=10,
    samples_bytes=5,
    process_bytes=5e8,
    batch_bytes=20,
    models={"din": ModelSpeed(train=(1e-6, 1e-8, 1e-7, 1e-9), score=(5e-7, 0, 0, 1e-10))},
)


def workload(model: str = "din", **changes) -> Workload:
    """Return what is planned, with changes of its attributes."""
    config = model_config(model, {}, common={"embedding_dim": 16, "hidden": (20, 8)})
    options = TrainingOptions(epochs=2, batch_size=100, max_len=50)
    planned = Workload("shop", model, COUNTS, COLUMNS, config, options, 2, RetrainingParameters(), 100)
    return replace(planned, **changes)


def own_tables(users: int = 40, seed: int = 0) -> tuple[CanonicalTables, DatasetParameters]:
    """Return a log of behaviours of 50 items in 7 categories."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(1, users + 1), rng.integers(3, 15, users))
    time = np.arange(len(user)) * 100
    behaviors = pd.DataFrame({"user": user, "item": rng.integers(1, 51, len(user)), "time": time})
    items = pd.DataFrame({"item": np.arange(1, 51), "category": 1 + np.arange(50) % 7})
    block = {
        "title": "Shop",
        "protocol": {"name": "next_item"},
        "features": {"item": ["item_id", "category"], "behavior": ["item_id", "category", "gap"]},
    }
    return CanonicalTables(behaviors, items), DatasetParameters.model_validate(block)
