"""Gather the rows of a dataset, compare them, and write the table, the page and the picture."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.evaluation.comparison import ModelRuns, compare
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.evaluation.page import results_markdown
from deep_interest.evaluation.published import published_metrics
from deep_interest.experiments import Table, model_spec, pipeline_name
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.impressions import TRUE_PROBABILITY
from deep_interest.pipelines.parameters import DatasetParameters

logger = logging.getLogger(__name__)


def make_compare(dataset: str, table: Table) -> Callable[..., pd.DataFrame]:
    """The comparing node's function of a table; it takes ``<model>_predictions`` and ``<model>_curves`` of each row."""

    def compare_rows(
        log: BehaviorLog,
        features: FeatureTables,
        samples: pd.DataFrame,
        evaluation: EvaluationParameters,
        **outputs: pd.DataFrame,
    ) -> pd.DataFrame:
        """The table ``results``: means over seeds, intervals over users and seeds, timings."""
        predictions = {model: outputs[f"{model}_predictions"] for model in table.models}
        require_present(dataset, predictions, log, features, samples)
        test = _test_rows(samples)
        runs = {model: _runs(model, predictions[model], outputs[f"{model}_curves"]) for model in table.models}
        results = compare(test, runs, base=table.base, second=table.second, minimum=evaluation)
        logger.info("Test set, means over seeds:\n%s", _for_terminal(results))
        return results

    return compare_rows


def make_page(dataset: str, table: Table) -> Callable[..., str]:
    """The page node's function of one dataset, whose key finds its published figures."""

    def write_page(results: pd.DataFrame, samples: pd.DataFrame, settings: DatasetParameters) -> str:
        """The page ``results.md``, published figures beside ours."""
        test = _test_rows(samples)
        protocol = settings.protocol.name
        return results_markdown(
            results, title=_title(settings, table), protocol=protocol, test_samples=len(test),
            test_users=test["user"].nunique(), published=published_metrics(dataset, protocol), base=table.base,
            curves_show_test=table.curves,
        )  # fmt: skip

    return write_page


def make_figure(table: Table) -> Callable[..., Any]:
    """The drawing node's function of a table."""

    def draw_results(results: pd.DataFrame, dataset: DatasetParameters) -> Any:
        """The picture of the table."""
        from deep_interest.figures.comparison import results_chart

        return results_chart(results, title=_title(dataset, table), base=table.base)

    return draw_results


def make_curves(table: Table) -> Callable[..., Any]:
    """The drawing node's function of a table's learning curves."""

    def draw_curves(**curves: pd.DataFrame) -> Any:
        """Train loss, test loss and test AUC by epoch (DIN Fig. 4)."""
        from deep_interest.figures.curves import curves_chart

        named = {model_spec(model).name: of_row for model, of_row in curves.items()}
        return curves_chart(named, title=f"By epoch: {table.title}")

    return draw_curves


def require_present(
    dataset: str, predictions: Mapping[str, pd.DataFrame], log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame
) -> None:  # fmt: skip
    """Refuse predictions that were made from other data than the present ones.

    Args:
        dataset: the dataset's key.
        predictions: by model; the attribute ``data`` is the fingerprint of what they were made from.
        log, features, samples: the present data.

    Raises:
        InputError: some were made from other data; the message names them all, and the command that makes them again.
    """
    from deep_interest.training.content import Data

    present = Data(log, features, samples).fingerprint()
    stale = [model for model, table in predictions.items() if table.attrs.get("data") != present]
    if stale:
        pipelines = ",".join(pipeline_name(dataset, model) for model in stale)
        raise InputError(
            f"predictions of {', '.join(stale)} ({dataset}): made from other samples, features or behaviours than the present "
            f"ones; train and score again by `kedro run --pipelines={pipelines}`, then run this command again"
        )


def _title(dataset: DatasetParameters, table: Table) -> str:
    return f"{dataset.title}: {table.title}"


def _runs(model: str, predictions: pd.DataFrame, curves: pd.DataFrame) -> ModelRuns:
    columns = [name for name in predictions if name.startswith("seed_")]
    seeds = [int(name.removeprefix("seed_")) for name in columns]
    last = curves.groupby("seed").last().loc[seeds]
    seconds = last["seconds"].to_numpy(float)
    speed = np.divide(
        last["samples"].to_numpy(float), seconds, out=np.full(len(last), np.nan), where=seconds > 0
    )
    best = curves.groupby("seed")["validation_gauc"].max() if "validation_gauc" in curves else None
    return ModelRuns(
        name=model_spec(model).name, seeds=tuple(seeds), probabilities=predictions[columns].to_numpy().T,
        train_seconds=seconds, samples_per_second=speed, baseline=model_spec(model).baseline,
        validation_gauc=float("nan") if best is None else float(best.loc[seeds].mean()),
        deterministic=model_spec(model).closed_form,
    )  # fmt: skip


def _test_rows(samples: pd.DataFrame) -> pd.DataFrame:
    columns = ["user", "item", "label", *([TRUE_PROBABILITY] if TRUE_PROBABILITY in samples else [])]
    return samples.loc[samples["split"] == "test", columns].reset_index(drop=True)


def _for_terminal(results: pd.DataFrame) -> str:
    columns = [
        "name",
        "gauc",
        "gauc_std",
        "auc",
        "logloss",
        "rela_impr",
        "oracle_share",
        "seeds",
        "samples_per_second",
    ]
    shown = results[[name for name in columns if name in results]].astype(object)
    formats = {
        "rela_impr": "{:+.2f}%",
        "oracle_share": "{:.1%}",
        "samples_per_second": "{:,.0f}",
        "name": "{}",
        "seeds": "{}",
    }
    for name in shown:
        form = formats.get(name, "{:.4f}")
        shown[name] = ["" if pd.isna(value) else form.format(value) for value in shown[name]]
    return shown.to_string(index=False)
