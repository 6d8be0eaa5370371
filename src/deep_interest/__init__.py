"""Click-through-rate models from user-behaviour logs: DIN and its baselines."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from deep_interest.serving.predictor import Predictor

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(
    experiment: str,
    *,
    version: str | None = None,
    seed: int | None = None,
    env: str | None = None,
    folder: "str | Path | None" = None,
) -> "Predictor":
    """Load a trained model for predictions by the source's own ids.

    Args:
        experiment: dataset and model, such as ``simulated.din``; a tuned model ends in ``_tuned``, a model of a leaderboard in ``_leaderboard``.
        version: version of the model's registry, or ``champion`` for the one that serves; without it, the model that
            ``kedro run --pipelines=<dataset>.<model>`` has trained.
        seed: seed of the fit whose parameters are used; the first one if left out.
        env: configuration environment, as in ``kedro run --env``.
        folder: a folder of the project; the working directory if left out.

    Returns:
        A `Predictor`.

    Raises:
        InputError: unknown dataset, model, version or seed; the model is not trained, or was trained on other data; the
            folder is not in a Kedro project.

    Example:
        >>> model = deep_interest.load("simulated.din")  # doctest: +SKIP
        >>> model.predict(user=557, items=[1002, 95], context={"pid": 1, "hour": 20})  # doctest: +SKIP
    """
    from deep_interest.prediction import load as load_predictor  # noqa: PLC0415  # imports torch and Kedro

    return load_predictor(experiment, version=version, seed=seed, env=env, folder=folder)
