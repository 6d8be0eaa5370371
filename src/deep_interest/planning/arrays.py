"""Exact sizes: the schema of a dataset by its counts, the arrays of its log and features, and the parameters of a model."""

from dataclasses import dataclass

from deep_interest.logs import standardised
from deep_interest.logs.encoding import GAP_CODES, POSITION_CODES
from deep_interest.logs.feature_columns import GAP, POSITION, FeatureColumns
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.config import ModelConfig
from deep_interest.planning.counts import Counts, sizes_of_fields

ASSUMED_VALUES = 1_000
"""Values of a feature that was not counted."""
NPY_HEADER = 128  # bytes before the numbers of a `.npy` file
_CODE, _TIME, _OFFSET = 4, 8, 8  # bytes


def schema_of(columns: FeatureColumns, counts: Counts) -> FeatureSchema:
    """Return the schema that a dataset of these counts has; multi-hot fields count as fields with one value.

    Args:
        columns: feature columns.
        counts: size of the dataset.
    """
    sizes = sizes_of_fields(columns, counts, assumed_values=ASSUMED_VALUES)
    derived = {GAP: GAP_CODES, POSITION: POSITION_CODES}

    def of(name: str) -> Field:
        if name in derived and name in columns.own:
            return Field(name=name, size=derived[name], derived=True)
        if name in columns.standardised:
            return Field(name=name, size=standardised.ROWS, dense=True)
        return Field(name=name, size=sizes[name])

    behavior = columns.item if columns.behavior is None else columns.behavior
    shared = [name for name in behavior if name in columns.item]
    return FeatureSchema(
        item=tuple(map(of, columns.item)),
        behavior=tuple(map(of, [*shared, *columns.own])),
        profile=tuple(map(of, columns.profile)),
        context=tuple(map(of, columns.context)),
    )


def log_bytes(schema: FeatureSchema, counts: Counts) -> int:
    """Bytes of the folder of the log: offsets of the users, one array per field, and times if ``gap`` is a feature."""
    stored = [field for field in schema.behavior if not field.derived]
    arrays = [_OFFSET * (counts.users + 2), *[_CODE * counts.behaviors] * len(stored)]
    if any(field.name == GAP for field in schema.behavior):
        arrays.append(_TIME * counts.behaviors)
    return sum(arrays) + NPY_HEADER * len(arrays)


def features_bytes(schema: FeatureSchema, counts: Counts) -> int:
    """Bytes of the arrays of the folder of features: one code per item and per user for each field."""
    arrays = [_CODE * (counts.items + 1)] * len(schema.item)
    arrays += [_CODE * (counts.users + 1)] * len(schema.profile)
    return sum(arrays) + NPY_HEADER * len(arrays)


def sample_bytes(schema: FeatureSchema) -> int:
    """Bytes of a sample in memory: user, item, end of the history, label, split, time, and the context."""
    return 4 + 4 + 4 + 1 + 1 + 8 + _CODE * len(schema.context)


def batch_source_bytes(schema: FeatureSchema) -> int:
    """Bytes of a sample in the tensors that batches are gathered from: user, item, end of the history, label, and the context."""
    return 4 + 4 + 4 + 4 + _CODE * len(schema.context)


def behavior_width(schema: FeatureSchema, config: ModelConfig) -> int:
    """Numbers in the vector of a behaviour."""
    dim = getattr(config, "embedding_dim", 1)
    own = getattr(config, "own_dim", None) or dim
    return dim * len(schema.shared) + own * len(schema.own)


@dataclass(frozen=True)
class ModelSize:
    """Parameters of a model.

    Attributes:
        table_rows: rows of all embedding tables.
        table_values: numbers in the embedding tables.
        network_values: numbers in all other parameters.
    """

    table_rows: int
    table_values: int
    network_values: int

    @property
    def weight_bytes(self) -> int:
        """Bytes of the parameters in float32."""
        return 4 * (self.table_values + self.network_values)

    @property
    def table_bytes(self) -> int:
        """Bytes of the embedding tables in float32."""
        return 4 * self.table_values


def model_size(model: str, config: ModelConfig, schema: FeatureSchema) -> ModelSize:
    """Count the parameters of a model by building it with tables that take no memory.

    Args:
        model: key of the model.
        config: its options.
        schema: schema of the dataset.
    """
    from deep_interest.models.embeddings import embedding_tables, tables_without_rows  # noqa: PLC0415  # imports torch
    from deep_interest.models.registry import build_model  # noqa: PLC0415

    with tables_without_rows():
        net = build_model(model, config, schema)
    tables = embedding_tables(net)
    values = sum(table.weight.numel() for table in tables)
    rows = sum(table.num_embeddings for table in tables)
    everything = sum(parameter.numel() for parameter in net.parameters())
    return ModelSize(rows, values, everything - values)
