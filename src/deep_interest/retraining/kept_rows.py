"""The rows of the embedding tables that a warm start keeps, with their optimiser state, and what the tables of a version take."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.models.embeddings import Table, embedding_tables, tables_without_rows
from deep_interest.models.nade import NADE
from deep_interest.models.registry import build_model, stored_config
from deep_interest.retraining.fitted import FittedModel, Parent
from deep_interest.retraining.rows import Rows


def keep_rows(parent: Parent, rows: Rows, key: str) -> Parent:
    """Return the parent with only the rows that the challenger keeps, in its order: weights, buffers of tables, and moments.

    Args:
        parent: model that a warm start continues from.
        rows: rows of the challenger's tables.
        key: key of the model.

    Raises:
        InputError: the model has a table whose rows are pairs of ids.
    """
    if not rows:
        return parent
    model = _without_rows(parent, key)
    _check_rows_can_go(model, rows, key)
    kept = {name: torch.from_numpy(of.kept) for name, of in rows.items()}
    weights = dict(parent.weights)
    for name, table in model.named_modules():
        if isinstance(table, Table) and table.field in kept:
            weights |= {
                f"{name}.{own}": parent.weights[f"{name}.{own}"][kept[table.field]]
                for own in table.state_dict()
            }
    digest = hashlib.sha256(b"".join(name.encode() + of.kept.tobytes() for name, of in rows.items()))
    return replace(
        parent,
        id=f"{parent.id}, rows {digest.hexdigest()}",
        weights=weights,
        optimizer=_keep_moments(parent.optimizer, embedding_tables(model), kept),
        schema=parent.schema.resized({name: len(of) for name, of in kept.items()}),
    )


def _without_rows(parent: Parent, key: str) -> nn.Module:
    with tables_without_rows():
        return build_model(key, stored_config(key, parent.config), parent.schema)


def _keep_moments(state: dict[str, Any], tables: list[Table], kept: Mapping[str, Tensor]) -> dict[str, Any]:
    """Keep rows of the moments, which are first of the network, then of each table."""
    if not state:
        return {}
    network, *of_tables = state["moments"]
    moments = [
        tuple(moment[kept[table.field]] for moment in pair) if table.field in kept else pair
        for table, pair in zip(tables, of_tables, strict=True)
    ]
    return {"steps": state["steps"], "moments": [network, *moments]}


def _check_rows_can_go(model: nn.Module, rows: Rows, key: str) -> None:
    crossed = [module.crossed for module in model.modules() if isinstance(module, NADE) and module.pairs]
    if found := [name for name in crossed if name in rows]:
        raise InputError(
            f"retraining.rows: {key} has a row for each pair of {found[0]} and what happened, so a warm start cannot keep some of its rows; "
            f"remove {found[0]} from retraining.rows, or set retraining.strategy to full_window"
        )


def rows_summary(fitted: FittedModel, key: str, rows: Rows) -> dict[str, dict[str, float]]:
    """Summarise the rows of a version as plain values.

    Returns:
        ``{field: {"champion", "kept", "evicted", "admitted", "rows", "waiting", "megabytes_champion", "megabytes"}}``: numbers of ids
        with a row in the champion's tables and in the version's, and megabytes of their rows in float32 with the state of the optimiser.
    """
    if not rows:
        return {}
    tables = embedding_tables(_without_rows(fitted.as_parent(), key))
    moments = fitted.optimizer["moments"][1:] if fitted.optimizer else [()] * len(tables)
    found = {}
    for name, of in rows.items():
        per_row = sum(
            table.embedding_dim * sum(value.element_size() for value in (table.weight, *pair))
            for table, pair in zip(tables, moments, strict=True)
            if table.field == name
        )
        kept, ids = len(of.kept) - 1, of.size - 1  # without the row of unknown ids
        champion = kept + of.evicted
        found[name] = {
            "champion": champion, "kept": kept, "evicted": of.evicted, "admitted": of.admitted, "rows": ids,
            "waiting": of.waiting, "megabytes_champion": champion * per_row / 1e6, "megabytes": ids * per_row / 1e6,
        }  # fmt: skip
    return found
