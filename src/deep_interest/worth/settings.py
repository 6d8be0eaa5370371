"""Settings of the curves: which values each axis has, and what a fit with one of them differs in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.logs.suspicions import ticks_per_second
from deep_interest.training.experiment import Experiment
from deep_interest.worth.parameters import WorthParameters

DAYS, USERS, MAX_LEN, EMBEDDING_DIM = "days", "users", "max_len", "embedding_dim"
FULL = "full"  # key of the setting of the model itself, which all axes share
VARIANT = "_worth"


@dataclass(frozen=True)
class Axis:
    """Values of one quantity.

    Attributes:
        name: ``days`` (newest days of training samples), ``users`` (share of the training users), ``max_len`` or ``embedding_dim``.
        values: values in ascending order.
        own: the value of the model itself.
    """

    name: str
    values: tuple[float, ...]
    own: float


@dataclass(frozen=True)
class Setting:
    """A value of an axis; everything else is that of the model itself."""

    axis: Axis
    value: float

    @property
    def key(self) -> str:
        """Name of the setting's fits: ``full``, or such as ``max_len_5``."""
        return FULL if self.value == self.axis.own else f"{self.axis.name}_{self.value:g}"


def axes_of(
    experiment: Experiment, samples: pd.DataFrame, parameters: WorthParameters, *, by_day: bool
) -> tuple[Axis, ...]:
    """Return the axes with more than one value.

    Args:
        experiment: the model and its options.
        samples: canonical table of samples.
        parameters: values of each axis in addition to the model's own.
        by_day: whether the samples are split by day. With a single training day, users are counted instead.
    """
    config, training = experiment.config_and_options()
    lengths = [length for length in parameters.max_len if length < training.max_len]
    axes = [
        _data_axis(samples, parameters.shares, by_day=by_day),
        _axis(MAX_LEN, lengths, training.max_len),
    ]
    if (width := getattr(config, EMBEDDING_DIM, None)) is not None:
        axes.append(_axis(EMBEDDING_DIM, parameters.embedding_dim, width))
    return tuple(axis for axis in axes if len(axis.values) > 1)


def _data_axis(samples: pd.DataFrame, shares: Sequence[float], *, by_day: bool) -> Axis:
    days = int(days_before(samples).max()) + 1 if by_day else 1
    if days == 1:
        return _axis(USERS, shares, 1.0)
    return _axis(DAYS, [max(1, round(share * days)) for share in shares], days)


def _axis(name: str, values: Sequence[float], own: float) -> Axis:
    return Axis(name, tuple(sorted({*values, own})), own)


def settings_of(axes: Sequence[Axis]) -> Iterator[Setting]:
    """Yield the settings of all axes, that of the model itself once."""
    settings = [Setting(axis, value) for axis in axes for value in axis.values]
    yield from {setting.key: setting for setting in settings}.values()


def days_before(samples: pd.DataFrame) -> NDArray[np.int64]:
    """Return how many whole days before the first validation or test sample each training sample is, ``(n,)``.

    Args:
        samples: canonical table of samples that are split by day.
    """
    train = (samples["split"] == "train").to_numpy()
    time = samples["time"].to_numpy()
    day = 86_400 * ticks_per_second(samples["time"])
    return np.maximum(0, (time[~train].min() - 1 - time[train]) // day)


def samples_of(samples: pd.DataFrame, setting: Setting, *, seed: int) -> pd.DataFrame:
    """Return the samples of a fit: all of validation and test set, and a part of the training samples.

    Days are the newest ones. Users are drawn for each seed, so that differences between seeds include those between draws; a
    smaller share of them is a part of each larger one.

    Args:
        samples: canonical table of samples.
        setting: setting of the fit.
        seed: seed of the fit.
    """
    name = setting.axis.name
    if setting.key == FULL or name not in (DAYS, USERS):
        return samples
    train = (samples["split"] == "train").to_numpy()
    kept = ~train
    if name == DAYS:
        kept[train] = days_before(samples) < setting.value
    else:
        user = samples["user"].to_numpy()[train]
        users = np.random.default_rng(seed).permutation(np.unique(user))
        kept[train] = np.isin(user, users[: max(1, round(setting.value * len(users)))])
    return samples[kept].reset_index(drop=True)


def experiment_of(experiment: Experiment, setting: Setting) -> Experiment:
    """Return the experiment of a setting; its fits are in a folder of their own."""
    changed = replace(experiment, variant=f"{VARIANT}/{setting.key}")
    if setting.key == FULL:
        return changed
    if setting.axis.name == MAX_LEN:
        options = {**experiment.run.options, MAX_LEN: int(setting.value)}  # above all others
        return replace(changed, run=experiment.run.model_copy(update={"options": options}))
    if setting.axis.name == EMBEDDING_DIM:
        values = {f"model.{EMBEDDING_DIM}": int(setting.value)}
        return replace(changed, recipe=experiment.recipe.with_values(experiment.model, values))
    return changed
