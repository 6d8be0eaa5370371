"""The data path on an engine next to that of NumPy, for the same canonical tables."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.datasets import SamplesFolder
from deep_interest.engines import vocabularies
from deep_interest.engines.connections import engine_of
from deep_interest.engines.path import MadeSamples, make_samples
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.canonical import canonical
from deep_interest.logs.storage import load_log
from deep_interest.logs.tables import CanonicalTables
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.samples import nodes
from deep_interest.pipelines.samples.neighbours import add_neighbours
from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.impressions import impression_blocks
from deep_interest.simulation.users import user_blocks
from deep_interest.simulation.world import make_items

LEFT_OUT = {"rows that the reader has dropped": 3}


def simulated_shop(*, impressions: bool, users: int = 150) -> CanonicalTables:
    """Return the tables of a small simulated shop; behaviours have a rating and an action, which the shop does not have."""
    config = SimulationConfig(users=users, items=200, categories=20, themes=4, shops=20, mean_behaviors=12)
    behaviors = pd.concat(behavior_blocks(config), ignore_index=True)
    row = np.arange(len(behaviors))
    behaviors = behaviors.assign(
        rating=1.0 + row % 5, action=np.array(["view", "buy", "cart"])[row % 3], dwell=row % 97 / 7
    )
    behaviors["time"] = behaviors["time"] // 7200 * 7200  # many ties
    shown = pd.concat(impression_blocks(config), ignore_index=True) if impressions else None
    tables = CanonicalTables(
        behaviors, make_items(config), pd.concat(user_blocks(config), ignore_index=True), shown
    )
    return canonical(tables)


def parameters(protocol: Mapping[str, Any], features: Mapping[str, Any]) -> DatasetParameters:
    """Return the parameters of a dataset with hashed sampling."""
    block = {"title": "Test", "protocol": {**protocol, "sampling": "hashed"}, "features": features}
    return DatasetParameters.model_validate(block)


def on_numpy(
    tables: CanonicalTables, dataset: DatasetParameters
) -> tuple[Any, Any, pd.DataFrame, pd.DataFrame]:
    """Return log, features, samples and summary of today's nodes."""
    ids = nodes.build_vocabularies(tables.behaviors, tables.items, tables.impressions)
    if tables.impressions is None:
        made = nodes.samples_from_behaviors(tables.behaviors, tables.items, *ids, LEFT_OUT, dataset)
    else:
        made = nodes.samples_from_impressions(
            tables.behaviors, tables.items, *ids, LEFT_OUT, dataset, tables.users, tables.shown
        )
    return made


def on_engine(
    connection: Any, tables: CanonicalTables, dataset: DatasetParameters, *, partitions: int
) -> MadeSamples:
    """Return the result of an engine; the rows of its tables are in a random order."""
    folder = Path(tempfile.mkdtemp())
    behaviors = _written(connection, tables.behaviors, folder / "behaviors.parquet")
    impressions = None
    if tables.impressions is not None:
        impressions = _written(connection, tables.impressions, folder / "impressions.parquet")
    (folder / "engine").mkdir()
    made = make_samples(
        engine_of(connection, folder / "engine", partitions), behaviors, impressions,
        entities=CanonicalTables(pd.DataFrame(), tables.items, tables.users),
        user_ids=vocabularies.user_ids(connection, behaviors, impressions),
        item_ids=nodes.build_vocabularies(tables.behaviors, tables.items)[1],
        left_out=LEFT_OUT, protocol=dataset.protocol, features=dataset.features,
    )  # fmt: skip
    neighbours = dataset.features.neighbours
    return made if neighbours is None else add_neighbours(made, max_len=neighbours)


def _written(connection: Any, table: pd.DataFrame, file: Path) -> Any:
    table.sample(frac=1, random_state=np.random.default_rng(1)).to_parquet(file, index=False)
    return connection.read_parquet(str(file))


def stored_samples(made: MadeSamples) -> pd.DataFrame:
    """Return the samples of an engine as training loads them."""
    dataset = SamplesFolder(filepath=str(made.samples.parent.with_name("samples.parquet")))
    dataset.save(made.samples)
    return dataset.load()


def assert_equal_to_numpy(
    made: MadeSamples, tables: CanonicalTables, dataset: DatasetParameters
) -> pd.DataFrame:
    """Compare samples, summary, features and log; return the sorted samples."""
    log, features, samples, summary = on_numpy(tables, dataset)
    expected = samples.sort_values(list(samples), ignore_index=True)
    found = stored_samples(made)
    pd.testing.assert_frame_equal(found.sort_values(list(found), ignore_index=True), expected)
    pd.testing.assert_frame_equal(made.summary, summary)
    assert made.features.schema == features.schema
    for of_engine, of_numpy in ((made.features.items, features.items), (made.features.users, features.users)):
        assert of_engine.keys() == of_numpy.keys()
        assert all((of_engine[name] == of_numpy[name]).all() for name in of_numpy)
    for name, value_sets in features.value_sets.items():
        np.testing.assert_array_equal(made.features.value_sets[name].offsets, value_sets.offsets)
        np.testing.assert_array_equal(made.features.value_sets[name].values, value_sets.values)
    assert_equal_logs(load_log(made.log), log)
    return expected


def assert_equal_logs(made: BehaviorLog, expected: BehaviorLog) -> None:
    """Compare all arrays of two logs."""
    np.testing.assert_array_equal(made.offsets, expected.offsets)
    assert made.fields.keys() == expected.fields.keys()
    for name, codes in expected.fields.items():
        np.testing.assert_array_equal(made.fields[name], codes)
    for of_made, of_expected in ((made.times, expected.times), (made.negatives, expected.negatives)):
        assert (of_made is None) == (of_expected is None)
        assert of_expected is None or (of_made == of_expected).all()
    assert made.sequences.keys() == expected.sequences.keys()
    for name, sequence in expected.sequences.items():
        assert_equal_logs(made.sequences[name], sequence)
