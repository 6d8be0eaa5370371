"""Compare the models of a dataset and write the results table, its page and its chart."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.evaluation.comparison import ModelRuns, compare
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.evaluation.group_table import group_table
from deep_interest.evaluation.page import results_markdown
from deep_interest.evaluation.position_table import PositionRuns, learned_effects, position_table
from deep_interest.evaluation.power_table import power_table
from deep_interest.evaluation.published import published_metrics
from deep_interest.evaluation.smallest_model import ModelCost, smallest_model_table
from deep_interest.experiments import Table, model_spec, pipeline_name
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.impressions import TRUE_PROBABILITY
from deep_interest.logs.suspicions import ticks_per_second
from deep_interest.logs.tables import LOGGED_SLOT
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.trained import TrainedModel, TrainedModels

logger = logging.getLogger(__name__)


@node_factory
def make_compare(dataset: str, table: Table) -> Callable[..., pd.DataFrame]:
    """Return the node function that compares the models of a table."""

    def compare_models(
        log: BehaviorLog,
        features: FeatureTables,
        samples: pd.DataFrame,
        evaluation: EvaluationParameters,
        trained_models: TrainedModels,
    ) -> pd.DataFrame:
        """Return the results table: means over seeds, intervals over users and seeds, timings."""
        require_current_data(dataset, trained_models, log, features, samples)
        test = select_test(samples)
        runs = {model: model_runs(model, trained_models[model]) for model in table.models}
        results = compare(test, runs, base=table.base, second=table.second, minimum=evaluation)
        logger.info("Test set, means over seeds:\n%s", _format_for_terminal(results))
        return results

    return compare_models


@node_factory
def make_power(dataset: str, table: Table) -> Callable[..., pd.DataFrame]:
    """Return the node function that measures what the test set can show about the models of a table."""

    def measure_power(
        log: BehaviorLog,
        features: FeatureTables,
        samples: pd.DataFrame,
        trained_models: TrainedModels,
        settings: DatasetParameters,
        evaluation: EvaluationParameters,
    ) -> pd.DataFrame:
        """Return the smallest difference to the base that the test set can show for each model, and what smaller ones need."""
        require_current_data(dataset, trained_models, log, features, samples)
        test = samples[samples["split"] == "test"]
        runs = {model: model_runs(model, trained_models[model]) for model in table.models}
        days = None
        if settings.protocol.name == "by_day" and len(test):
            days = max(1, round((test["time"].max() - test["time"].min()) / _day(test["time"])))
        return power_table(test[["user", "label"]], runs, days=days, base=table.base, minimum=evaluation)

    return measure_power


@node_factory
def make_smallest_model(dataset: str, table: Table) -> Callable[..., pd.DataFrame]:
    """Return the node function that tests which models of a table are not worse than the best one."""

    def find_smallest_model(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, trained_models: TrainedModels,
        evaluation: EvaluationParameters,
    ) -> pd.DataFrame:  # fmt: skip
        """Return size, scoring time, difference to the best model on validation data, and verdict of each model."""
        require_current_data(dataset, trained_models, log, features, samples)
        trained = {model: trained_models[model] for model in table.models}
        costs = {
            model: ModelCost(**of.predictions.attrs["cost"])
            for model, of in trained.items()
            if "cost" in of.predictions.attrs
        }
        runs = {model: model_runs(model, of) for model, of in trained.items()}
        return smallest_model_table(select_test(samples)[["user", "label"]], runs, costs, minimum=evaluation)

    return find_smallest_model


@node_factory
def make_position(dataset: str, table: Table) -> Callable[..., pd.DataFrame]:
    """Return the node function that measures the effect of slots that the models of a table have learned."""

    def measure_position(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, trained_models: TrainedModels
    ) -> pd.DataFrame:
        """Return the effect of each slot by model: learned, estimated on the test set, and as the raw CTR shows it."""
        require_current_data(dataset, trained_models, log, features, samples)
        test = samples[samples["split"] == "test"].rename(columns={LOGGED_SLOT: "slot"})
        runs = {}
        for model in table.models:
            trained = trained_models[model]
            options = trained.settings.get("training", {})
            learned = learned_effects(trained.curves, options.get("selection", "gauc"))
            if learned is not None:
                probabilities = model_runs(model, trained).probabilities
                name, reference = model_spec(model).name, options.get("position_reference", 1)
                runs[model] = PositionRuns(name, *learned, probabilities, reference)
        return position_table(test[["user", "label", "slot"]].reset_index(drop=True), runs)

    return measure_position


@node_factory
def make_groups_table(dataset: str, models: Sequence[str], base: str) -> Callable[..., pd.DataFrame]:
    """Return the node function that compares some models by group of test samples."""

    def measure_groups(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, trained_models: TrainedModels,
        settings: DatasetParameters,
    ) -> pd.DataFrame:  # fmt: skip
        """Return GAUC and difference to the base by length of the history, and by frequency and age of user and item."""
        require_current_data(dataset, trained_models, log, features, samples)
        test = samples[samples["split"] == "test"]
        runs = {model: model_runs(model, trained_models[model]) for model in models}
        return group_table(
            test, runs, sizes_of_groups(samples, dated=settings.protocol.name == "by_day"), base=base
        )

    return measure_groups


def sizes_of_groups(samples: pd.DataFrame, *, dated: bool) -> dict[str, np.ndarray]:
    """Return what test samples are grouped by, ``(n,)`` each: whole numbers by name.

    Args:
        samples: canonical table of samples.
        dated: whether they have times by which the age of an item can be said.
    """
    train, test = (samples[samples["split"] == split] for split in ("train", "test"))
    begin = test["history_begin"] if "history_begin" in test else 0
    sizes = {"length of the history": (test["history_end"] - begin).to_numpy().astype(int)}
    for entity in ("user", "item"):
        counts = train[entity].value_counts()
        sizes[f"training samples of the {entity}"] = test[entity].map(counts).fillna(0).to_numpy().astype(int)
    if dated:
        age = test["time"] - test["item"].map(samples.groupby("item")["time"].min())
        sizes["days since the item was first shown"] = (age // _day(samples["time"])).to_numpy().astype(int)
    return sizes


def _day(times: pd.Series) -> int:
    """Return the length of a day in the unit of the times."""
    return 86_400 * ticks_per_second(times)


@node_factory
def make_page(dataset: str, table: Table) -> Callable[..., str]:
    """Return the node function that writes the page of a results table, with the metrics published for ``dataset``."""

    def write_page(results: pd.DataFrame, samples: pd.DataFrame, settings: DatasetParameters) -> str:
        """Return the Markdown page of the results, with published metrics next to ours."""
        test = select_test(samples)
        protocol = settings.protocol.name
        return results_markdown(
            results, title=_title(settings, table), protocol=protocol, test_samples=len(test),
            test_users=test["user"].nunique(), published=published_metrics(dataset, protocol), base=table.base,
            curves_show_test=table.curves,
        )  # fmt: skip

    return write_page


@node_factory
def make_figure(table: Table) -> Callable[..., Any]:
    """Return the node function that draws the chart of a results table."""

    def draw_results(results: pd.DataFrame, dataset: DatasetParameters) -> Any:
        """Return the chart of the results table."""
        from deep_interest.figures.comparison import results_chart

        return results_chart(results, title=_title(dataset, table), base=table.base)

    return draw_results


@node_factory
def make_curves(table: Table) -> Callable[..., Any]:
    """Return the node function that draws the learning curves of a table's models."""

    def draw_curves(trained_models: TrainedModels) -> Any:
        """Return the chart of train loss, test loss and test AUC by epoch (DIN Fig. 4)."""
        from deep_interest.figures.curves import curves_chart

        curves_by_name = {model_spec(model).name: trained.curves for model, trained in trained_models.items()}
        return curves_chart(curves_by_name, title=f"Learning curves: {table.title}")

    return draw_curves


def require_current_data(
    dataset: str, trained_models: TrainedModels, log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame
) -> None:  # fmt: skip
    """Check that predictions were computed from the current data.

    Args:
        dataset: key of the dataset.
        trained_models: trained models; the attribute ``data`` of their predictions is the fingerprint of the data they
            were computed from.
        log, features, samples: current data.

    Raises:
        InputError: predictions were computed from other data; the message lists all such models and the command that
            computes the predictions again.
    """
    from deep_interest.training.content import Data

    fingerprint = Data(log, features, samples).fingerprint()
    stale = [
        model
        for model, trained in trained_models.items()
        if trained.predictions.attrs.get("data") != fingerprint
    ]
    if stale:
        pipelines = ",".join(pipeline_name(dataset, model) for model in stale)
        raise InputError(
            f"predictions of {', '.join(stale)} ({dataset}): made from other samples, features or behaviours than the "
            f"current ones; run `kedro run --pipelines={pipelines}`, then run this command again"
        )


def _title(dataset: DatasetParameters, table: Table) -> str:
    return f"{dataset.title}: {table.title}"


def model_runs(model: str, trained: TrainedModel) -> ModelRuns:
    """Return what the comparison needs of a trained model."""
    predictions, curves = trained.predictions, trained.curves
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
        deterministic=model_spec(model).closed_form, searched=bool(trained.settings.get("searched")),
    )  # fmt: skip


def select_test(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the test samples with the columns that metrics need."""
    optional = (TRUE_PROBABILITY, "request", "weight")
    columns = ["user", "item", "label", *(name for name in optional if name in samples)]
    return samples.loc[samples["split"] == "test", columns].reset_index(drop=True)


def _format_for_terminal(results: pd.DataFrame) -> str:
    formats = {
        "name": "{}", "gauc": "{:.4f}", "gauc_std": "{:.4f}", "auc": "{:.4f}", "logloss": "{:.4f}", "rela_impr": "{:+.2f}%",
        "oracle_share": "{:.1%}", "seeds": "{}", "samples_per_second": "{:,.0f}",
    }  # fmt: skip
    table = results[[name for name in formats if name in results]].astype(object)
    for name in table:
        table[name] = ["" if pd.isna(value) else formats[name].format(value) for value in table[name]]
    return table.rename(columns={"samples_per_second": "samples/s"}).to_string(index=False)
