"""Inputs of an exported model: names, types and shapes, from the feature schema."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from deep_interest.logs.schema import FeatureSchema, Field

HISTORY, CANDIDATES, PROFILE, CONTEXT = "history", "candidates", "profile", "context"

Kind = Literal["code", "number", "values", "offsets"]


class InputSpec(NamedTuple):
    """One input tensor.

    Attributes:
        name: ``<group>.<field>``; the two inputs of a multi-hot field end in ``.values`` and ``.offsets``.
        group: ``history``, ``candidates``, ``profile``, ``context``, or the name of a further sequence.
        field: name of the field.
        kind: ``code`` (integer, 0 is unknown), ``number`` (standardised z, NaN is missing), ``values`` (codes of all
            values of a multi-hot field, row after row) or ``offsets`` (position of each row's first value, as in
            `torch.nn.EmbeddingBag`).
        rows: name of the number of rows: ``T`` behaviours, ``C`` candidates or 1; a further sequence has its own
            ``T_<name>``.
        size: number of codes; 0 for numbers and offsets.
    """

    name: str
    group: str
    field: str
    kind: Kind
    rows: str
    size: int = 0

    @property
    def dtype(self) -> torch.dtype:
        """int64, or float32 for numbers."""
        return torch.float32 if self.kind == "number" else torch.int64

    @property
    def shape(self) -> str:
        """Name of the length of the tensor: ``rows``, or a length of its own for values."""
        return f"M_{self.group}_{self.field}" if self.kind == "values" else self.rows


def input_specs(schema: FeatureSchema, groups: Sequence[str] | None = None) -> list[InputSpec]:
    """Return the inputs in the order of the graph.

    Args:
        schema: feature groups of the model.
        groups: groups to include; all if None.
    """
    every = [(HISTORY, schema.behavior, "T"), (CANDIDATES, schema.item, "C")]
    every += [(PROFILE, schema.profile, "1"), (CONTEXT, schema.context, "C")]
    every += [(name, sequence.behavior, f"T_{name}") for name, sequence in schema.sequences.items()]
    return [
        spec
        for group, fields, rows in every
        if groups is None or group in groups
        for field in fields
        for spec in _specs_of(group, field, rows)
    ]


def _specs_of(group: str, field: Field, rows: str) -> Iterator[InputSpec]:
    name = f"{group}.{field.name}"
    if field.dense:
        yield InputSpec(name, group, field.name, "number", rows)
    elif field.pooling:
        yield InputSpec(f"{name}.values", group, field.name, "values", rows, field.size)
        yield InputSpec(f"{name}.offsets", group, field.name, "offsets", rows)
    else:
        yield InputSpec(name, group, field.name, "code", rows, field.size)


def example_inputs(specs: Sequence[InputSpec]) -> dict[str, Tensor]:
    """Return inputs to trace a model with: several behaviours and candidates, all of them unknown."""
    lengths = {
        rows: 1 if rows == "1" else 3 + 2 * k
        for k, rows in enumerate(dict.fromkeys(spec.rows for spec in specs))
    }
    return {spec.name: _example(spec, lengths[spec.rows]) for spec in specs}


def _example(spec: InputSpec, rows: int) -> Tensor:
    if spec.kind == "offsets":
        return 2 * torch.arange(rows)
    return torch.zeros(2 * rows if spec.kind == "values" else rows, dtype=spec.dtype)
