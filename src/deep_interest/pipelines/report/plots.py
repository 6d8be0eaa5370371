"""Nodes that draw the plots of one dataset's trained models."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.engines.engine_input import EngineInput
from deep_interest.experiments import ALL_MODELS, model_spec
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.report.nodes import require_current_data
from deep_interest.pipelines.trained import TrainedModels
from deep_interest.simulation.config import SimulationConfig
from deep_interest.training.parameters import Recipes

Checkpoint = dict[str, Any]
SEED_PREFIX = "seed_"  # of the columns of predictions


def draw_activation(prelu: Checkpoint, dice: Checkpoint) -> Any:
    """Draw PReLU and Dice as learned by two models (DIN Fig. 3)."""
    from deep_interest.reporting import plots

    return plots.draw_activation(prelu, dice)


def draw_attention(
    attention: Checkpoint, log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame,
    user_ids: pd.DataFrame, item_ids: pd.DataFrame, items: pd.DataFrame,
) -> tuple[Any, Any]:  # fmt: skip
    """Draw attention weights (DIN Fig. 5) and item embeddings (DIN Fig. 6)."""
    from deep_interest.reporting import plots

    view = _dataset_view([attention], log, features, samples, user_ids, item_ids, items)
    return plots.draw_attention(attention, view), plots.draw_embedding(attention, view)


def draw_evolution(
    evolution: Checkpoint, log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame,
    user_ids: pd.DataFrame, item_ids: pd.DataFrame, items: pd.DataFrame,
) -> Any:  # fmt: skip
    """Draw interest evolution (DIEN Fig. 3)."""
    from deep_interest.reporting import plots

    view = _dataset_view([evolution], log, features, samples, user_ids, item_ids, items)
    return plots.draw_evolution(evolution, view)


def draw_auxiliary(with_loss: pd.DataFrame, without_loss: pd.DataFrame) -> Any:
    """Draw target and auxiliary loss by epoch (DIEN Fig. 2)."""
    from deep_interest.figures.curves import AUXILIARY_CURVES, curves_chart

    curves = {"DIEN": with_loss, "without auxiliary loss": without_loss}
    return curves_chart(
        curves, panels=AUXILIARY_CURVES, title="With and without auxiliary loss (DIEN Fig. 2)",
        note="Lines are means over seeds, bands ± one standard deviation. The two target losses are comparable; the auxiliary loss has "
        "another scale.",
    )  # fmt: skip


@node_factory
def make_seeds(dataset: str) -> Callable[..., Any]:
    """Return the node function that draws each seed of a dataset's models."""

    def draw_seeds(
        results: pd.DataFrame, log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, settings: DatasetParameters,
        trained_models: TrainedModels,
    ) -> Any:  # fmt: skip
        """Draw the GAUC of every seed by model."""
        from deep_interest.evaluation.metrics import gauc
        from deep_interest.figures.comparison import seeds_chart

        require_current_data(dataset, trained_models, log, features, samples)
        test = samples[samples["split"] == "test"]
        users, labels = test["user"].to_numpy(), test["label"].to_numpy()
        seed_gaucs = [
            {
                "model": model,
                "seed": int(column.removeprefix(SEED_PREFIX)),
                "gauc": gauc(users, labels, trained.predictions[column].to_numpy()).value,
            }
            for model, trained in trained_models.items()
            for column in trained.predictions
            if column.startswith(SEED_PREFIX)
        ]
        return seeds_chart(results, pd.DataFrame(seed_gaucs), title=f"{settings.title}: GAUC of every seed")

    return draw_seeds


def draw_speed(results: pd.DataFrame, dataset: DatasetParameters) -> Any:
    """Draw GAUC against training speed."""
    from deep_interest.figures.comparison import speed_chart

    return speed_chart(results, title=f"{dataset.title}: GAUC and training speed")


def draw_validation(results: pd.DataFrame, dataset: DatasetParameters) -> Any:
    """Draw the GAUC on the validation set next to that on the test set."""
    from deep_interest.figures.comparison import validation_chart

    return validation_chart(results, title=f"{dataset.title}: GAUC on validation and test set")


def draw_position(position: pd.DataFrame, dataset: DatasetParameters) -> Any:
    """Draw the effect of each slot next to the raw CTR."""
    from deep_interest.figures.position import position_chart

    return position_chart(position, title=f"{dataset.title}: effect of the slot on clicks")


def draw_days(impressions: pd.DataFrame | EngineInput, dataset: DatasetParameters) -> Any:
    """Draw CTR and number of impressions by day."""
    from deep_interest.figures.comparison import days_chart
    from deep_interest.logs.impressions import days_and_splits
    from deep_interest.logs.samples import SPLITS
    from deep_interest.reporting.groups import ctr_by_day

    if isinstance(impressions, EngineInput):
        impressions = impressions.to_pandas()
    shown, days, splits = days_and_splits(impressions, dataset.protocol)
    assert days is not None  # this node belongs to datasets that are split by day
    table = ctr_by_day(days, np.array(SPLITS)[splits], shown["label"].to_numpy())
    return days_chart(table, title=f"{dataset.title}: CTR by day")


@node_factory
def make_groups(dataset: str, models: Sequence[str]) -> Callable[..., tuple[Any, Any]]:
    """Return the node function that draws metrics of groups of samples for some models."""

    def draw_groups(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, settings: DatasetParameters, trained_models: TrainedModels
    ) -> tuple[Any, Any]:  # fmt: skip
        """Draw calibration, and GAUC by length of the history and by activity of the user."""
        from deep_interest.figures.comparison import calibration_chart, groups_chart
        from deep_interest.reporting.groups import calibration, gauc_by_group

        require_current_data(dataset, trained_models, log, features, samples)
        test = samples[samples["split"] == "test"]
        users, labels = test["user"].to_numpy(), test["label"].to_numpy()
        scores = {
            model_spec(model).name: trained_models[model].predictions.filter(like=SEED_PREFIX).to_numpy().T
            for model in models
        }
        training_samples = samples.loc[samples["split"] == "train", "user"].value_counts()
        activity = training_samples.reindex(users).fillna(0).to_numpy().astype(int)
        groups = {
            "length of the history": gauc_by_group(users, labels, scores, test["history_end"].to_numpy()),
            "training samples of the user": gauc_by_group(users, labels, scores, activity),
        }
        curves = {name: calibration(labels, values) for name, values in scores.items()}
        return (
            calibration_chart(curves, title=f"{settings.title}: calibration"),
            groups_chart(
                {grouping: table for grouping, table in groups.items() if len(table)},
                title=f"{settings.title}: GAUC by group of samples",
            ),
        )

    return draw_groups


def measure_structure(
    log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, user_ids: pd.DataFrame, item_ids: pd.DataFrame,
    items: pd.DataFrame, simulation: SimulationConfig, **checkpoints: Checkpoint,
) -> tuple[pd.DataFrame, Any]:  # fmt: skip
    """Measure how much of the simulator's structure the models have learned; return the table and its chart."""
    from deep_interest.figures.analysis import structure_chart
    from deep_interest.reporting import planted_structure

    view = _dataset_view(list(checkpoints.values()), log, features, samples, user_ids, item_ids, items)
    measures = planted_structure.measure_structure(checkpoints, view, simulation)
    names = [model_spec(key).name for key in measures["model"]]
    return measures, structure_chart(measures.assign(model=names))


def export_playable_din(
    checkpoint: Checkpoint, log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame,
    user_ids: pd.DataFrame, item_ids: pd.DataFrame, items: pd.DataFrame,
) -> dict[str, Any]:  # fmt: skip
    """Export a DIN that readers of the report can try."""
    from deep_interest.reporting.playable_din import playable_din

    return playable_din(
        checkpoint, _dataset_view([checkpoint], log, features, samples, user_ids, item_ids, items)
    )


def describe_run() -> dict[str, Any]:
    """Return when and from which commit of the project the report is made."""
    from deep_interest.reporting import run_record

    return run_record.describe_run()


@node_factory
def make_report(dataset: str) -> Callable[..., str]:
    """Return the node function that writes ``report.html``; it takes ``<name>_figure``."""

    def write_report(
        results: pd.DataFrame, summary: pd.DataFrame, parameters: DatasetParameters, recipes: Recipes,
        run: dict[str, Any], other_figures: dict[str, Any], model_settings: dict[str, Any],
        earlier_results: pd.DataFrame, leaderboard: pd.DataFrame, power: pd.DataFrame,
        groups: pd.DataFrame, smallest_model: pd.DataFrame, worth: pd.DataFrame, playable: dict[str, Any] | None = None,
        position: pd.DataFrame | None = None, **inputs: Any,
    ) -> str:  # fmt: skip
        """Write the HTML report."""
        from deep_interest.evaluation.history import earlier_results as find_earlier
        from deep_interest.evaluation.published import published_metrics
        from deep_interest.reporting.report import Report, report_html

        figures = {name.removesuffix("_figure"): value for name, value in inputs.items()}
        protocol = parameters.protocol.name
        return report_html(
            Report(
                title=parameters.title,
                protocol=protocol,
                results=results,
                summary=summary,
                figures=figures | other_figures,
                settings=model_settings,
                published=published_metrics(dataset, protocol),
                recipes=recipes.root,
                run=run,
                playable=playable or {},
                earlier=find_earlier(earlier_results, results, ALL_MODELS.title),
                leaderboard=leaderboard,
                power=power,
                groups=groups,
                smallest_model=smallest_model,
                worth=worth,
                position=position,
            )
        )

    return write_report


def _dataset_view(
    checkpoints: list[Checkpoint], log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame,
    user_ids: pd.DataFrame, item_ids: pd.DataFrame, items: pd.DataFrame,
) -> Any:  # fmt: skip
    """Return the dataset with the history length of the first checkpoint.

    Raises:
        InputError: a checkpoint was trained on other data.
    """
    from deep_interest.reporting.dataset_view import DatasetView
    from deep_interest.training.parameters import TrainingOptions
    from deep_interest.training.runs import Data, require_same_data

    data = Data(log, features, samples)
    fingerprint = data.fingerprint()
    for checkpoint in checkpoints:
        require_same_data(checkpoint, fingerprint)
    options = TrainingOptions.model_validate_json(checkpoints[0]["training"])
    return DatasetView(data, user_ids, item_ids, items, max_len=options.max_len)


__all__ = [
    "describe_run", "draw_activation", "draw_attention", "draw_auxiliary", "draw_days", "draw_evolution", "draw_position", "draw_speed",
    "draw_validation", "export_playable_din", "make_groups", "make_report", "make_seeds", "measure_structure",
]  # fmt: skip
