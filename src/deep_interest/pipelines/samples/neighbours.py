"""The feature ``neighbours``, whose model is fitted to all training samples: they are in memory, on engines as well."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.engines.path import MadeSamples
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.feature_columns import NEIGHBOURS
from deep_interest.logs.storage import load_log

_KEY = ["user", "time", "history_end", "label", "item"]


def with_neighbours(
    log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, *, max_len: int
) -> tuple[FeatureTables, pd.DataFrame]:
    """Add the feature to the schema and to the samples, see `training.neighbours`; it does not depend on the order of the rows."""
    from deep_interest.training import neighbours  # imports torch

    order = np.lexsort([samples[name].to_numpy() for name in reversed(_KEY)])
    ordered = samples.iloc[order].reset_index(drop=True)
    features, scored = neighbours.with_neighbours(log, features, ordered, max_len=max_len)
    codes = np.empty(len(samples), np.int32)
    codes[order] = scored[NEIGHBOURS].to_numpy()
    return features, samples.assign(**{NEIGHBOURS: codes})


def add_neighbours(made: MadeSamples, *, max_len: int) -> MadeSamples:
    """Add the feature to the samples that an engine has stored."""
    files = sorted(made.samples.glob("*/*.parquet"))
    tables = [pq.read_table(file, partitioning=None) for file in files]
    frame = pa.concat_tables(table.cast(_plain(table.schema)) for table in tables).to_pandas()
    features, samples = with_neighbours(load_log(made.log), made.features, frame, max_len=max_len)
    codes, begin = samples[NEIGHBOURS].to_numpy(), 0
    for file, table in zip(files, tables, strict=True):
        column = pa.array(codes[begin : begin + len(table)], pa.int32())
        pq.write_table(table.append_column(NEIGHBOURS, column), file)
        begin += len(table)
    return replace(made, features=features)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema with strings instead of dictionaries of strings."""
    return pa.schema(
        [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in schema]
    )
