"""Nodes of the results table and plots: predictions must belong to the current data."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from support.training import small_data

from deep_interest.errors import InputError
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.experiments import Table
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.report.nodes import make_compare
from deep_interest.pipelines.report.plots import draw_days, make_groups, make_seeds
from deep_interest.pipelines.trained import TrainedModel, TrainedModels
from deep_interest.training.content import Data

LABELS, SCORES = [1, 0, 1, 0], [0.9, 0.1, 0.2, 0.4]  # user 1 is ranked correctly, user 2 is not: GAUC 1/2
CURVES = pd.DataFrame(
    {"seed": [3], "epoch": [1.0], "samples": [10], "seconds": [2.0], "validation_gauc": [0.7]}
)


def current_data() -> Data:
    """Return the small log with four test samples and one training sample."""
    samples = pd.DataFrame(
        {
            "user": [1, 1, 2, 2, 1],
            "item": [5, 6, 7, 8, 9],
            "label": [*LABELS, 1],
            "history_end": [0] * 5,
            "split": ["test"] * 4 + ["train"],
        }
    )
    return replace(small_data(), samples=samples)


def predictions(data: Data, tmp_path, scores=SCORES) -> pd.DataFrame:
    """Return predictions as read from the file of a run."""
    rows = data.samples.loc[data.samples["split"] == "test", ["user", "item"]]
    table = rows.reset_index(drop=True).assign(seed_3=scores)
    table.attrs["data"] = data.fingerprint()
    table.to_parquet(tmp_path / "predictions.parquet", index=False)
    return pd.read_parquet(tmp_path / "predictions.parquet")


def compare(data: Data, **tables: pd.DataFrame) -> pd.DataFrame:
    node = make_compare("shop", Table("rows", tuple(tables), base=next(iter(tables))))
    return node(data.log, data.features, data.samples, EvaluationParameters(), trained(**tables))


def trained(**tables: pd.DataFrame) -> TrainedModels:
    return TrainedModels({model: TrainedModel(table, CURVES, {}) for model, table in tables.items()})


def with_change(data: Data, column: str) -> Data:
    """Return the data with one value changed."""
    samples = data.samples.copy()
    if column in samples:
        samples.loc[0, column] = {"label": 0, "user": 2, "item": 6, "history_end": 1, "split": "train"}[
            column
        ]
        return replace(data, samples=samples)
    if column == "log":
        fields = data.log.fields | {"category": data.log.fields["category"] + 1}
        return replace(data, log=replace(data.log, fields=fields))
    items = data.features.items | {"category": np.roll(data.features.items["category"], 1)}
    return replace(data, features=replace(data.features, items=items))


def test_the_results_table_combines_predictions_and_curves(tmp_path):
    data = current_data()
    row = compare(data, base=predictions(data, tmp_path)).iloc[0]
    assert (row["model"], row["gauc"], row["seeds"]) == ("base", 0.5, 1)
    assert (row["validation_gauc"], row["samples_per_second"]) == (0.7, 5)


@pytest.mark.parametrize("column", ["label", "user", "item", "history_end", "split", "log", "features"])
def test_predictions_of_other_data_are_rejected(tmp_path, column):
    old, new = current_data(), with_change(current_data(), column)
    stale = predictions(old, tmp_path)
    with pytest.raises(InputError, match=r"predictions of base \(shop\): made from other samples"):
        compare(new, base=stale)


def test_the_message_lists_all_stale_models_and_the_command(tmp_path):
    old, new = current_data(), with_change(current_data(), "label")
    stale, fresh = predictions(old, tmp_path), predictions(new, tmp_path)
    command = "kedro run --pipelines=shop.lr,tuned.shop.din`"
    with pytest.raises(InputError, match=rf"predictions of lr, din_tuned \(shop\).*{re.escape(command)}"):
        compare(new, base=fresh, lr=stale, din_tuned=stale)


def test_predictions_without_a_fingerprint_are_rejected(tmp_path):
    data = current_data()
    without_fingerprint = predictions(data, tmp_path)
    without_fingerprint.attrs.clear()
    with pytest.raises(InputError, match="made from other samples"):
        compare(data, base=without_fingerprint)


@pytest.mark.parametrize("node", [partial(make_seeds("shop"), None), make_groups("shop", ["base"])])
def test_plots_reject_predictions_of_other_data(tmp_path, node):
    old, new = current_data(), with_change(current_data(), "label")
    with pytest.raises(InputError, match=r"kedro run --pipelines=shop\.base"):
        node(
            log=new.log, features=new.features, samples=new.samples, settings=None,
            trained_models=trained(base=predictions(old, tmp_path)),
        )  # fmt: skip


def test_days_are_those_of_the_source_and_split_as_the_samples():
    impressions = pd.DataFrame(
        {"user": 1, "item": 1, "time": 0, "day": [1, 2, 2, 3, 4, 9], "label": [1, 1, 0, 0, 1, 1]}
    )
    protocol = {"name": "by_day", "last_day": "1970-01-05"}  # day 9 is not in use
    settings = DatasetParameters.model_validate({"title": "Shop", "protocol": protocol})
    ctr, shown = draw_days(impressions, settings).panels
    lines = {line.name: (line.x, line.y) for line in ctr.marks}
    assert lines == {"train": ([0, 1], [1.0, 0.5]), "validation": ([2], [0.0]), "test": ([3], [1.0])}
    assert [line.y for line in shown.marks] == [[1, 2], [1], [1]]
