"""The grid: which datasets and models there are, so that each cell's pipeline has a name before parameters load.

A dataset whose raw files need code of their own stands here; one whose block in the configuration declares its tables
(``source``) is known by that block alone.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from deep_interest.config import as_list
from deep_interest.errors import InputError
from deep_interest.models.registry import MODELS, ModelSpec

Source = Literal["amazon", "movielens", "tables"]


@dataclass(frozen=True)
class DatasetSpec:
    """One dataset.

    Attributes:
        source: the reader; ``tables`` are tables that the configuration declares.
        impressions: the source has impressions and profiles; its protocol is ``by_day``.
        rows: keys of the models in its table; all if left out.
    """

    source: Source
    impressions: bool = False
    rows: tuple[str, ...] | None = None


_TAKEN = (
    "simulate", "simulate_days", "backtest", "ingest", "samples", "train", "report", "tune", "tuned", "retrain", "score",
)  # fmt: skip

BUILT_IN: dict[str, DatasetSpec] = {
    "movielens_100k": DatasetSpec("movielens"),
    "movielens_latest_small": DatasetSpec("movielens"),
    "movielens_1m": DatasetSpec("movielens"),
    "movielens_20m": DatasetSpec("movielens"),
    "movielens_25m": DatasetSpec("movielens"),
    "movielens_32m": DatasetSpec("movielens"),
    "amazon_toys": DatasetSpec("amazon"),
    "amazon_beauty": DatasetSpec("amazon"),
    "amazon_sports": DatasetSpec("amazon"),
    "amazon_electronics": DatasetSpec("amazon"),
    "amazon_books": DatasetSpec("amazon"),
}


def datasets_of(blocks: Mapping[str, Any]) -> dict[str, DatasetSpec]:
    """All datasets by key: those whose blocks declare their tables, then those that code reads.

    Args:
        blocks: the configuration below ``datasets``.

    Raises:
        InputError: a key cannot name pipelines, or a block's ``rows`` are no rows of a table.
    """
    blocks = {key: block for key, block in blocks.items() if isinstance(block, Mapping)}
    for key in blocks:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", str(key)):
            raise InputError(f"datasets: {key!r} cannot name a dataset; take letters, digits, _ and -")
        if key in _TAKEN or key in ABLATIONS:
            raise InputError(f"datasets: {key} is the name of a pipeline; give the dataset another")
    found = {
        key: DatasetSpec("tables", impressions=bool(block["source"].get("impressions")))
        for key, block in blocks.items()
        if isinstance(block.get("source"), Mapping)
    } | BUILT_IN
    chosen = {key: block["rows"] for key, block in blocks.items() if block.get("rows") is not None}
    return {
        key: replace(row, rows=_rows(key, chosen[key])) if key in chosen else row
        for key, row in found.items()
    }


def _rows(dataset: str, keys: Any) -> tuple[str, ...]:
    """The rows that a dataset's block names, in the tables' order."""
    where, keys = f"datasets.{dataset}.rows", as_list(keys)
    if not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys):
        raise InputError(f"{where}: found {keys!r}; name models as a list, e.g. [popularity, lr, base, din]")
    if unknown := [key for key in keys if key not in MODELS]:
        raise InputError(f"{where}: {', '.join(unknown)} is not known; the rows are {', '.join(MODELS)}")
    if "base" not in keys:
        raise InputError(f"{where}: base is missing; RelaImpr and the differences compare each row with it")
    return tuple(key for key in MODELS if key in keys)


@dataclass(frozen=True)
class Table:
    """A table over some rows of one dataset.

    Attributes:
        title: what it shows.
        models: its rows, in order.
        base: the row that RelaImpr refers to.
        second: another row that all are compared with; the best baseline if left out.
        curves: it comes with learning curves.
    """

    title: str
    models: tuple[str, ...]
    base: str = "base"
    second: str | None = None
    curves: bool = False


ALL_MODELS = Table("all models", tuple(key for key, row in MODELS.items() if not row.ablation))


def table_for(row: DatasetSpec) -> Table:
    """The table of a dataset: the rows it names, else all models, without those that need impressions where there are none."""
    if row.rows is not None:
        return Table("chosen models", row.rows)
    return replace(
        ALL_MODELS,
        models=tuple(key for key in ALL_MODELS.models if row.impressions or not MODELS[key].impressions),
    )


ABLATIONS: dict[str, Table] = {
    "din_table4": Table(
        "regularisers (DIN Table 4, Fig. 4)",
        ("reg_no_goods", "reg_none", "reg_dropout", "reg_filter", "reg_difacto", "reg_mba"),
        base="reg_no_goods",
        second="reg_none",
        curves=True,
    ),
    "din_table5": Table(
        "DIN, mini-batch aware regularisation and Dice (DIN Table 5)",
        ("lr", "base", "wide_deep", "pnn", "deepfm", "din", "din_mba", "din_dice", "din_mba_dice"),
    ),
    "dien_table4": Table(
        "AUGRU and auxiliary loss (DIEN Table 4)",
        ("base", "gru_attention", "gru_aigru", "gru_agru", "gru_augru", "dien"),
        second="gru_augru",
    ),
}

RETRAINABLE = tuple(key for key, row in MODELS.items() if not row.ablation and not row.closed_form)
"""The rows that can be kept fresh: those that are fitted step by step."""

TUNABLE = tuple(
    key for key, row in MODELS.items() if not row.closed_form
)  # rows that have something to search
TUNED_SUFFIX = "_tuned"  # ends the key of a row that has the values of its search


def model_spec(key: str) -> ModelSpec:
    """The row of a key, which may be a tuned one."""
    if not key.endswith(TUNED_SUFFIX):
        return MODELS[key]
    row = MODELS[key.removesuffix(TUNED_SUFFIX)]
    return replace(row, name=f"{row.name}, tuned", baseline=False)


def pipeline_name(dataset: str, row: str) -> str:
    """The pipeline that writes the files of a model or of another table of a dataset."""
    if row in ABLATIONS:
        return f"{row}.{dataset}"
    return (
        f"tuned.{dataset}.{row.removesuffix(TUNED_SUFFIX)}"
        if row.endswith(TUNED_SUFFIX)
        else f"{dataset}.{row}"
    )


def table_of_tuned(model: str) -> Table:
    """A row tuned, against the same row as it is configured."""
    return Table(f"{MODELS[model].name}, tuned and not", (model, f"{model}{TUNED_SUFFIX}"), base=model)


__all__ = [
    "ABLATIONS",
    "ALL_MODELS",
    "BUILT_IN",
    "MODELS",
    "RETRAINABLE",
    "TUNABLE",
    "TUNED_SUFFIX",
    "DatasetSpec",
    "Source",
    "Table",
    "datasets_of",
    "model_spec",
    "pipeline_name",
    "table_for",
    "table_of_tuned",
]
