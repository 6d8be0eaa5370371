"""`deep-interest explain`: which behaviours a prediction rests on."""

import logging
import re
from collections.abc import Callable
from pathlib import Path

from kedro.framework.context import KedroContext
from kedro.io import DatasetError

from deep_interest.commands.session import open_project, require_dataset, split_experiment
from deep_interest.datasets.charts import write_png
from deep_interest.errors import InputError
from deep_interest.experiments import pipeline_name
from deep_interest.reporting.dataset_view import DatasetView
from deep_interest.reporting.explain import Explanation, explain
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.runs import Data, require_same_data

_INPUTS = ("log", "features", "samples", "user_ids", "item_ids", "items")


def explain_prediction(
    experiment: str,
    user: str,
    candidate: str,
    *,
    top: int,
    plot: str | None,
    env: str | None,
    write: Callable[[str], None],
) -> None:
    """Print which behaviours a prediction of a trained model rests on, and write the plot.

    Args:
        experiment: ``DATASET.MODEL``.
        user: user id in the source.
        candidate: item id in the source.
        top: number of behaviours in the table.
        plot: path of the PNG file; a file under ``data/08_reporting`` if left out.
        env: configuration environment.
        write: called with each line of the output.

    Raises:
        InputError: unknown dataset, model, user or item; the model is not trained or was trained on other data; the
            command runs outside the project.
    """
    dataset, model = split_experiment(experiment)
    if top < 1:
        raise InputError(f"--top: found {top}, expected a whole number from 1")
    if plot and Path(plot).suffix.lower() != ".png":
        raise InputError(f"--plot: found {plot}, expected a file name that ends in .png")
    with open_project(env) as context:
        require_dataset(context, dataset)
        logging.getLogger("deep_interest").setLevel(logging.WARNING)
        explanation = _explain(context, dataset, model, user, candidate)
        default = Path(context.project_path) / context.config_loader["globals"]["data"] / "08_reporting"
    write(explanation.text(top))
    name = f"explain_{_file_name_part(user)}_{_file_name_part(candidate)}.png"
    path = Path(plot) if plot else default / dataset / model / name
    try:
        write_png(explanation.chart(top), path)
    except OSError as error:
        raise InputError(f"{path}: the plot cannot be written ({error})") from error
    write(f"\nplot: {path}")


def _explain(context: KedroContext, dataset: str, model: str, user: str, candidate: str) -> Explanation:
    names = [f"{dataset}.{name}" for name in (f"{model}.checkpoint", *_INPUTS)]
    try:
        checkpoint, log, features, samples, *ids_and_items = [context.catalog.load(name) for name in names]
        user_ids, item_ids, items = ids_and_items
    except DatasetError as error:
        raise InputError(
            f"{dataset}.{model}: {error.__cause__ or error}; train it with "
            f"`kedro run --pipelines={pipeline_name(dataset, model)}`"
        ) from error
    data = Data(log, features, samples)
    require_same_data(checkpoint, data.fingerprint())
    max_len = TrainingOptions.model_validate_json(checkpoint["training"]).max_len
    return explain(checkpoint, DatasetView(data, user_ids, item_ids, items, max_len=max_len), user, candidate)


def _file_name_part(identifier: str) -> str:
    """Replace the characters of an id that do not belong into a file name."""
    return re.sub(r"[^\w.-]", "_", identifier)
