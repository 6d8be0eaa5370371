"""Requests of one user with random codes, and their scores by the model itself."""

from dataclasses import replace

import numpy as np
import torch
from support.batches import dense_codes

from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.batch import Batch, ValueSetLookup

Inputs = dict[str, torch.Tensor]


def random_request(
    schema: FeatureSchema, length: int, candidates: int, *, seed: int = 0
) -> tuple[Inputs, Batch]:
    """A request as the inputs of an exported model, and as the batch that the model itself scores."""
    rng = np.random.default_rng(seed)
    inputs, sets = {}, {}
    groups = {"history": (schema.behavior, length), "candidates": (schema.item, candidates)}
    groups |= {"profile": (schema.profile, 1), "context": (schema.context, candidates)}
    groups |= {name: (sequence.behavior, length // 2) for name, sequence in schema.sequences.items()}
    codes = {
        group: {
            field.name: _codes(rng, f"{group}.{field.name}", field, rows, inputs, sets) for field in fields
        }
        for group, (fields, rows) in groups.items()
    }
    lookups = {name: _lookup(value_sets) for name, value_sets in sets.items()}
    batch = Batch(
        candidate=codes["candidates"], history=codes["history"], offsets=torch.tensor([0, length]),
        profile={name: code.expand(candidates) for name, code in codes["profile"].items()}, context=codes["context"],
        labels=torch.zeros(candidates), owner=torch.zeros(candidates, dtype=torch.int64), value_sets=lookups,
    )  # fmt: skip
    batch.sequences = {
        name: replace(batch, history=codes[name], offsets=torch.tensor([0, length // 2]), sequences={})
        for name in schema.sequences
    }
    return inputs, batch


def scores(model: torch.nn.Module, batch: Batch) -> np.ndarray:
    """The CTRs by the model's own forward pass."""
    with torch.inference_mode():
        return torch.sigmoid(model(batch).logits).numpy()


def _codes(rng, name: str, field: Field, rows: int, inputs: Inputs, sets: dict[str, list]) -> torch.Tensor:
    """Codes of a field for the batch; the inputs of the exported model are added to ``inputs``."""
    if field.dense:
        codes = dense_codes(rng, rows)
        inputs[name] = torch.tensor(np.where(codes > 0, (codes - 1) / 4096 - 8, np.nan), dtype=torch.float32)
        return torch.tensor(codes)
    if not field.pooling:
        inputs[name] = torch.tensor(rng.integers(0, field.size, rows))
        return inputs[name].int()
    known = sets.setdefault(field.name, [[0]])
    first = len(known)
    known += [sorted(set(rng.integers(0, field.size, rng.integers(1, 4)).tolist())) for _ in range(rows)]
    values = known[first:]
    inputs[f"{name}.values"] = torch.tensor([code for of in values for code in of], dtype=torch.int64)
    inputs[f"{name}.offsets"] = torch.tensor(np.cumsum([0, *map(len, values)])[:-1], dtype=torch.int64)
    return torch.arange(first, first + rows, dtype=torch.int32)


def _lookup(value_sets: list[list[int]]) -> ValueSetLookup:
    return ValueSetLookup(
        torch.tensor(np.cumsum([0, *map(len, value_sets)]), dtype=torch.int64),
        torch.tensor([code for of in value_sets for code in of], dtype=torch.int32),
    )
