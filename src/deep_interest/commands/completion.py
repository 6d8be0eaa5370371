"""Shell completion of names: datasets of the configuration, models, downloads."""

from collections.abc import Iterable

from click import Context, Parameter

from deep_interest.sources.downloads import DOWNLOADS, MANUAL_DOWNLOADS


def downloads(ctx: Context, param: Parameter, incomplete: str) -> list[str]:
    """Complete the name of a public dataset."""
    return _starting_with(incomplete, [*DOWNLOADS, *MANUAL_DOWNLOADS])


def datasets(ctx: Context, param: Parameter, incomplete: str) -> list[str]:
    """Complete the name of a dataset of the configuration."""
    return _starting_with(incomplete, _datasets(ctx))


def experiments(ctx: Context, param: Parameter, incomplete: str) -> list[str]:
    """Complete ``DATASET.MODEL``: first the dataset, after the dot the model."""
    from deep_interest.experiments import MODELS  # noqa: PLC0415

    return _experiments(ctx, incomplete, MODELS)


def retrained(ctx: Context, param: Parameter, incomplete: str) -> list[str]:
    """Complete ``DATASET.MODEL`` with the models that can be retrained."""
    from deep_interest.experiments import RETRAINABLE  # noqa: PLC0415

    return _experiments(ctx, incomplete, RETRAINABLE)


def _experiments(ctx: Context, incomplete: str, models: Iterable[str]) -> list[str]:
    dataset, dot, _ = incomplete.partition(".")
    if not dot:
        return _starting_with(incomplete, [f"{name}." for name in _datasets(ctx)])
    return _starting_with(incomplete, [f"{dataset}.{model}" for model in models])


def _datasets(ctx: Context) -> list[str]:
    from deep_interest.config import dataset_blocks  # noqa: PLC0415
    from deep_interest.experiments import datasets_of  # noqa: PLC0415

    return list(datasets_of(dataset_blocks(environment=ctx.params.get("env"))))


def _starting_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
