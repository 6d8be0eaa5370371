"""The command ``deep-interest explain``: what it takes from the project's catalog."""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from kedro.io import DatasetError

from deep_interest.config import dataset_blocks
from deep_interest.datasets.reports import write_png
from deep_interest.errors import InputError
from deep_interest.experiments import MODELS, TUNED_SUFFIX, datasets_of, pipeline_name
from deep_interest.reporting.dataset_view import DatasetView
from deep_interest.reporting.explain import explain
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.runs import Data, require_same_data


def explain_row(
    row: str,
    user: str,
    candidate: str,
    *,
    top: int,
    picture: str | None,
    env: str | None,
    say: Callable[[str], None],
) -> None:
    """Print which behaviours the prediction of a trained row rests on, and write the picture.

    Args:
        row: ``<dataset>.<model>``.
        user, candidate: ids of the source.
        top: behaviours in the table.
        picture: the file to write; below ``data/08_reporting`` if left out.
        env: Kedro's environment.
        say: takes each line.

    Raises:
        InputError: no such row, user or item, a row that is not trained, or was on other data, or another folder than the project's.
    """
    dataset, _, model = row.partition(".")
    known = datasets_of(dataset_blocks(environment=env))
    if dataset not in known or model.removesuffix(TUNED_SUFFIX) not in MODELS:
        raise InputError(
            f"{row!r}: expected DATASET.MODEL, as amazon_beauty.din; the datasets are {', '.join(known)}, the models {', '.join(MODELS)}"
        )
    if top < 1:
        raise InputError(f"--top: found {top}, expected a whole number from 1")
    if picture and Path(picture).suffix.lower() != ".png":
        raise InputError(f"--picture: found {picture}, expected a file that ends in .png")
    loaded, folder = _load(dataset, model, env)
    checkpoint, log, features, samples, *ids = loaded
    max_len = TrainingOptions.model_validate_json(checkpoint["training"]).max_len
    data = Data(log, features, samples)
    require_same_data(checkpoint, data.fingerprint())
    found = explain(checkpoint, DatasetView(data, *ids, max_len=max_len), user, candidate)
    say(found.text(top))
    path = (
        Path(picture)
        if picture
        else folder / dataset / model / f"explain_{_in_a_name(user)}_{_in_a_name(candidate)}.png"
    )
    try:
        write_png(found.chart(top), path)
    except OSError as error:
        raise InputError(f"{path}: the picture cannot be written ({error})") from error
    say(f"\npicture: {path}")


def _in_a_name(text: str) -> str:
    """An id as a part of a file's name."""
    return re.sub(r"[^\w.-]", "_", text)


def _load(dataset: str, model: str, env: str | None) -> tuple[list[Any], Path]:
    project = Path.cwd()
    if not (project / "pyproject.toml").exists():
        raise InputError(f"{project} is not the project's folder (no pyproject.toml there); go there first")
    bootstrap_project(project)
    logging.getLogger("deep_interest").setLevel(logging.WARNING)
    entities = ("log", "features", "samples", "user_ids", "item_ids", "items")
    with KedroSession.create(project, env=env) as session:
        context = session.load_context()
        try:
            loaded = [
                context.catalog.load(f"{dataset}.{name}") for name in (f"{model}.checkpoint", *entities)
            ]
        except DatasetError as error:
            raise InputError(
                f"{dataset}.{model}: {error.__cause__ or error}; train it by `kedro run --pipelines={pipeline_name(dataset, model)}`"
            ) from error
        return loaded, Path(context.config_loader["globals"]["data"]) / "08_reporting"
