"""Weights of clicks by the inverse of the probability that their slot was examined (Joachims et al. 2017)."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from deep_interest.errors import InputError
from deep_interest.evaluation.position import harvested_examination
from deep_interest.ops.runtime.host_copies import host_values
from deep_interest.training.data import SampleSet
from deep_interest.training.parameters import PositionWeights
from deep_interest.training.position import checked_slots

logger = logging.getLogger(__name__)


def with_position_weights(
    train: SampleSet, options: PositionWeights, *, reference: int, label: str
) -> SampleSet:
    """Weight the clicks of a training set by slot; the weights of the source are multiplied.

    Args:
        train: training samples.
        options: examination and largest weight.
        reference: slot whose harvested examination is 1.
        label: name of the fit in the log.

    Raises:
        InputError: the samples have no slots, a slot has no examination, or it cannot be estimated.
    """
    if train.slots is None:
        raise InputError(
            "training.position: weights needs the slot of each impression; set features.position to its column"
        )
    slots, labels = host_values(train.slots), host_values(train.labels).astype(np.float64)
    count = checked_slots(train.slots)
    examination = _examination(train, options, count, reference)
    weights = click_weights(slots, labels, examination, largest=options.largest)
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    logger.info(
        "%s: clicks weighted by 1 / examination (%s) · effective sample size %s of %s",
        label, ", ".join(f"slot {k} {e:.3f}" for k, e in enumerate(examination, start=1)), f"{effective:,.0f}", f"{len(weights):,}",
    )  # fmt: skip
    if train.weights is not None:
        weights = weights * host_values(train.weights)
    scaled = torch.from_numpy((weights / weights.mean()).astype(np.float32))
    return replace(train, weights=scaled.to(train.labels.device))


def click_weights(
    slots: np.ndarray, labels: np.ndarray, examination: Sequence[float] | np.ndarray, *, largest: float
) -> np.ndarray:
    """Return ``1 / examination`` of the slot for clicks, at most ``largest``, and 1 for other rows, ``(n,)``.

    A label between 0 and 1, such as one mixed with the predictions of a teacher, gets the corresponding mean.

    Args:
        slots: ``(n,)`` slots from 1.
        labels: ``(n,)`` in [0, 1].
        examination: examination of each slot, from the first one on.
        largest: largest weight.
    """
    inverse = np.minimum(1 / np.asarray(examination, np.float64), largest)[slots - 1]
    return 1 + labels * (inverse - 1)


def _examination(train: SampleSet, options: PositionWeights, slots: int, reference: int) -> np.ndarray:
    if options.examination != "harvest":
        if len(options.examination) < slots:
            raise InputError(
                f"training.position_weights.examination: found {len(options.examination)} values, but training has the slots 1 to {slots}; "
                "give one value per slot"
            )
        return np.array(options.examination[:slots])
    assert train.slots is not None
    return harvested_examination(
        _groups(train, options.same), host_values(train.slots), host_values(train.labels) > 0.5, reference=reference
    )  # fmt: skip


def _groups(train: SampleSet, names: Sequence[str]) -> np.ndarray:
    """Return a number for each combination of values, ``(n,)``."""
    items = train.store.items
    columns = {"user": lambda: host_values(train.user), "request": train.requests.numpy}
    columns |= {name: partial(_of_items, train, name) for name in items}
    columns |= {name: partial(host_values, codes) for name, codes in train.context.items()}
    groups = np.zeros(len(train), np.int64)
    for name in names:
        if name not in columns:
            raise InputError(
                f"training.position_weights.same: {name} is not a column of the samples; choose from {', '.join(columns)}"
            )
        codes = columns[name]().astype(np.int64)
        groups = np.unique(groups * (codes.max() + 1) + codes, return_inverse=True)[1]
    return groups


def _of_items(train: SampleSet, name: str) -> np.ndarray:
    return host_values(train.store.items[name])[host_values(train.item)]
