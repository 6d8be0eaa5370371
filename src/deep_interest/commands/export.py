"""`deep-interest export`: write a trained model as an ONNX graph or a `torch.export` program, with its vocabularies."""

from collections.abc import Callable
from pathlib import Path

import deep_interest
from deep_interest.commands.session import read_configuration, split_experiment
from deep_interest.errors import InputError, did_you_mean
from deep_interest.export.artifact import FORMATS, Format, TrainedModel, require_packages, write_artifact


def export_model(
    experiment: str,
    *,
    format: str,
    version: str | None,
    seed: int | None,
    out: str | None,
    env: str | None,
    write: Callable[[str], None],
) -> None:
    """Export a trained model.

    Args:
        experiment: ``DATASET.MODEL``.
        format: ``onnx`` or ``pt2``.
        version: version of the registry, or ``champion``; the model that `kedro run` has trained if None.
        seed: seed of the fit; the first if None.
        out: folder to write; ``data/06_models/DATASET/MODEL/export_FORMAT`` if None.
        env: configuration environment.
        write: called with each line of the output.

    Raises:
        InputError: unknown dataset, model, version, seed or format; the model is not trained or cannot be exported; a
            package is missing; the folder contains files of something else.
    """
    dataset, model = split_experiment(experiment)
    if format not in FORMATS:
        raise InputError(
            f"--format: {format} is not a format; the formats are {', '.join(FORMATS)}{did_you_mean(format, FORMATS)}"
        )
    from deep_interest.models.packed_tables import unpack_tables  # noqa: PLC0415  # imports torch

    require_packages(format)
    predictor = deep_interest.load(experiment, version=version, seed=seed, env=env)
    unpack_tables(predictor.model)
    encoder = predictor.encoder
    folder = Path(out) if out else _default_folder(dataset, model, format, env)
    trained = TrainedModel(
        predictor.model, predictor.store, encoder.users, encoder.items, encoder.context, encoder.columns,
        predictor.max_len, predictor.calibration,
    )  # fmt: skip
    facts = {"dataset": dataset, "model": model, "version": predictor.version, "seed": predictor.seed}
    write_artifact(folder, trained, format, facts)
    write(f"{predictor.name}: {folder}")


def _default_folder(dataset: str, model: str, format: Format, env: str | None) -> Path:
    """Return ``data/06_models/DATASET/MODEL/export_FORMAT`` of the project."""
    configuration = read_configuration(env)
    data = Path(configuration.conf.parent) / configuration.loader["globals"]["data"]
    return data / "06_models" / dataset / model / f"export_{format}"
