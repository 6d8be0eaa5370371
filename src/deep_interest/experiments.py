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
from deep_interest.models.registry import MODELS, ModelRow

Source = Literal["amazon", "movielens", "tables"]


@dataclass(frozen=True)
class DatasetRow:
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

READ_BY_CODE: dict[str, DatasetRow] = {
    "movielens_100k": DatasetRow("movielens"),
    "movielens_latest_small": DatasetRow("movielens"),
    "movielens_1m": DatasetRow("movielens"),
    "movielens_20m": DatasetRow("movielens"),
    "movielens_25m": DatasetRow("movielens"),
    "movielens_32m": DatasetRow("movielens"),
    "amazon_toys": DatasetRow("amazon"),
    "amazon_beauty": DatasetRow("amazon"),
    "amazon_sports": DatasetRow("amazon"),
    "amazon_electronics": DatasetRow("amazon"),
    "amazon_books": DatasetRow("amazon"),
}


def datasets_of(blocks: Mapping[str, Any]) -> dict[str, DatasetRow]:
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
        key: DatasetRow("tables", impressions=bool(block["source"].get("impressions")))
        for key, block in blocks.items()
        if isinstance(block.get("source"), Mapping)
    } | READ_BY_CODE
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


ALL_ROWS = Table("all models", tuple(key for key, row in MODELS.items() if not row.ablation))


def table_of(row: DatasetRow) -> Table:
    """The table of a dataset: the rows it names, else all models, without those that need impressions where there are none."""
    if row.rows is not None:
        return Table("chosen models", row.rows)
    return replace(
        ALL_ROWS,
        models=tuple(key for key in ALL_ROWS.models if row.impressions or not MODELS[key].impressions),
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

RETRAINED = tuple(key for key, row in MODELS.items() if not row.ablation and not row.closed_form)
"""The rows that can be kept fresh: those that are fitted step by step."""

SEARCHED = tuple(
    key for key, row in MODELS.items() if not row.closed_form
)  # rows that have something to search
TUNED = "_tuned"  # ends the key of a row that has the values of its search


def row_of(key: str) -> ModelRow:
    """The row of a key, which may be a tuned one."""
    if not key.endswith(TUNED):
        return MODELS[key]
    row = MODELS[key.removesuffix(TUNED)]
    return replace(row, name=f"{row.name}, tuned", baseline=False)


def pipeline_of(dataset: str, row: str) -> str:
    """The pipeline that writes the files of a model or of another table of a dataset."""
    if row in ABLATIONS:
        return f"{row}.{dataset}"
    return f"tuned.{dataset}.{row.removesuffix(TUNED)}" if row.endswith(TUNED) else f"{dataset}.{row}"


def tuned_table(model: str) -> Table:
    """A row tuned, against the same row as it is configured."""
    return Table(f"{MODELS[model].name}, tuned and not", (model, f"{model}{TUNED}"), base=model)


__all__ = [
    "ABLATIONS",
    "ALL_ROWS",
    "MODELS",
    "READ_BY_CODE",
    "RETRAINED",
    "SEARCHED",
    "TUNED",
    "DatasetRow",
    "Source",
    "Table",
    "datasets_of",
    "pipeline_of",
    "row_of",
    "table_of",
    "tuned_table",
]
