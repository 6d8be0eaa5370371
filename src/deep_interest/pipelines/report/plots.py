"""Nodes that draw one dataset's pictures from trained rows."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from deep_interest.experiments import model_spec
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.report.nodes import require_present
from deep_interest.simulation.config import SimulationConfig

Checkpoint = dict[str, Any]


def draw_activation(prelu: Checkpoint, dice: Checkpoint) -> Any:
    """PReLU against Dice with what they have learnt (DIN Fig. 3)."""
    from deep_interest.reporting import plots

    return plots.draw_activation(prelu, dice)


def draw_attention(
    attention: Checkpoint, log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame,
    user_ids: pd.DataFrame, item_ids: pd.DataFrame, items: pd.DataFrame,
) -> tuple[Any, Any]:  # fmt: skip
    """Activation weights (DIN Fig. 5), and items in t-SNE (DIN Fig. 6)."""
    from deep_interest.reporting import plots

    view = _dataset_view([attention], log, features, samples, user_ids, item_ids, items)
    return plots.draw_attention(attention, view), plots.draw_embedding(attention, view)


def draw_evolution(
    evolution: Checkpoint, log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame,
    user_ids: pd.DataFrame, item_ids: pd.DataFrame, items: pd.DataFrame,
) -> Any:  # fmt: skip
    """Evolving interests (DIEN Fig. 3)."""
    from deep_interest.reporting import plots

    view = _dataset_view([evolution], log, features, samples, user_ids, item_ids, items)
    return plots.draw_evolution(evolution, view)


def draw_auxiliary(with_loss: pd.DataFrame, without: pd.DataFrame) -> Any:
    """Target and auxiliary loss by epoch (DIEN Fig. 2)."""
    from deep_interest.figures.curves import AUXILIARY, curves_chart

    curves = {"DIEN": with_loss, "without auxiliary loss": without}
    return curves_chart(
        curves, panels=AUXILIARY, title="With and without auxiliary loss (DIEN Fig. 2)",
        note="Means over the seeds, the band is one deviation. The two target losses may be compared, the auxiliary loss is another.",
    )  # fmt: skip


def make_seeds(dataset: str) -> Callable[..., Any]:
    """The node's function that shows each seed of a dataset's rows; it takes the predictions by model."""

    def draw_seeds(
        results: pd.DataFrame, log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, settings: DatasetParameters,
        **predictions: pd.DataFrame,
    ) -> Any:  # fmt: skip
        """GAUC of every fit."""
        from deep_interest.evaluation.metrics import gauc
        from deep_interest.figures.comparison import seeds_chart

        require_present(dataset, predictions, log, features, samples)
        test = samples[samples["split"] == "test"]
        rows = [
            {"model": model, "seed": int(name.removeprefix("seed_")),
             "gauc": gauc(test["user"].to_numpy(), test["label"].to_numpy(), scores[name].to_numpy()).value}
            for model, scores in predictions.items()
            for name in scores
            if name.startswith("seed_")
        ]  # fmt: skip
        return seeds_chart(results, pd.DataFrame(rows), title=f"{settings.title}: every seed")

    return draw_seeds


def draw_speed(results: pd.DataFrame, dataset: DatasetParameters) -> Any:
    """GAUC against training speed."""
    from deep_interest.figures.comparison import speed_chart

    return speed_chart(results, title=f"{dataset.title}: accuracy and speed")


def make_groups(dataset: str) -> Callable[..., tuple[Any, Any]]:
    """The node's function that shows for whom a dataset's rows work; it takes the predictions by model."""

    def draw_groups(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, settings: DatasetParameters, **predictions: pd.DataFrame
    ) -> tuple[Any, Any]:  # fmt: skip
        """Calibration, and GAUC by length of the history and by how active the user is."""
        from deep_interest.figures.comparison import calibration_chart, groups_chart
        from deep_interest.reporting.plots import calibration, gauc_by_group

        require_present(dataset, predictions, log, features, samples)
        test = samples[samples["split"] == "test"]
        users, labels = test["user"].to_numpy(), test["label"].to_numpy()
        scores = {
            model_spec(model).name: table.filter(like="seed_").to_numpy().T
            for model, table in predictions.items()
        }
        trained = samples.loc[samples["split"] == "train", "user"].value_counts()
        activity = trained.reindex(users).fillna(0).to_numpy().astype(int)
        groups = {
            "length of the history": gauc_by_group(users, labels, scores, test["history_end"].to_numpy()),
            "the user's training samples": gauc_by_group(users, labels, scores, activity),
        }
        curves = {name: calibration(labels, values) for name, values in scores.items()}
        return (
            calibration_chart(curves, title=f"{settings.title}: calibration"),
            groups_chart(
                {axis: table for axis, table in groups.items() if len(table)},
                title=f"{settings.title}: for whom it works",
            ),
        )

    return draw_groups


def measure_structure(
    log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, user_ids: pd.DataFrame, item_ids: pd.DataFrame,
    items: pd.DataFrame, simulation: SimulationConfig, **checkpoints: Checkpoint,
) -> tuple[pd.DataFrame, Any]:  # fmt: skip
    """Whether the rows have found what the simulator planted, as numbers and as a picture."""
    from deep_interest.figures.analysis import structure_chart
    from deep_interest.reporting import plots

    view = _dataset_view(list(checkpoints.values()), log, features, samples, user_ids, item_ids, items)
    found = plots.measure_structure(checkpoints, view, simulation)
    return found, structure_chart(found.assign(model=[model_spec(key).name for key in found["model"]]))


def make_report(dataset: str) -> Callable[..., str]:
    """The node's function that writes one dataset's ``report.html``; it takes ``<name>_figure`` and ``<model>_settings``."""

    def write_report(
        results: pd.DataFrame, summary: pd.DataFrame, parameters: DatasetParameters, other_figures: dict[str, Any],
        **parts: dict[str, Any],
    ) -> str:  # fmt: skip
        """The page with everything in it."""
        from deep_interest.evaluation.published import published_metrics
        from deep_interest.reporting.report import Report, report_html

        def named(ending: str) -> dict[str, Any]:
            return {name.removesuffix(ending): part for name, part in parts.items() if name.endswith(ending)}

        protocol = parameters.protocol.name
        return report_html(
            Report(
                parameters.title, protocol, results, summary, named("_figure") | other_figures,
                named("_settings"),
                published_metrics(dataset, protocol),
            )
        )  # fmt: skip

    return write_report


def _dataset_view(
    checkpoints: list[Checkpoint], log: Any, features: Any, samples: pd.DataFrame, *ids: pd.DataFrame
) -> Any:
    """The dataset as the first checkpoint's model sees it.

    Raises:
        InputError: a checkpoint was trained on other data.
    """
    from deep_interest.reporting.dataset_view import DatasetView
    from deep_interest.training.parameters import TrainingOptions
    from deep_interest.training.runs import Data, require_same_data

    data = Data(log, features, samples)
    present = data.fingerprint()
    for checkpoint in checkpoints:
        require_same_data(checkpoint, present)
    options = TrainingOptions.model_validate_json(checkpoints[0]["training"])
    return DatasetView(data, *ids, max_len=options.max_len)


__all__ = [
    "draw_activation", "draw_attention", "draw_auxiliary", "draw_evolution", "draw_speed", "make_groups", "make_report", "make_seeds", "measure_structure",
]  # fmt: skip
