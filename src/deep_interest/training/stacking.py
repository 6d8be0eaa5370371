"""Choose how much of the neighbourhood's score is in a prediction (option ``stack_neighbours``), on the validation data of an evaluation."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import expit, logit
from torch import nn

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import NEIGHBOURS
from deep_interest.logs.standardised import decode
from deep_interest.models.stacking import Mixture, Stacking
from deep_interest.training.data import SampleSet
from deep_interest.training.evaluation import validate

SHARES = tuple(k / 10 for k in range(10))
"""Shares of the neighbourhood's score to choose from; the first, 0, is the model alone, and at 1 nothing would be left of it."""

_SMALLEST = 1e-7  # probability


def check_stacking(model: nn.Module, validation: SampleSet) -> None:
    """Check that a model that stacks the scores of neighbours has validation data to choose their share on.

    Raises:
        InputError: there is none.
    """
    if _stacking(model) is not None and not len(validation):
        raise InputError(
            "stack_neighbours: the share of the neighbourhood's score is chosen on validation data, and there is none; provide a "
            "validation split, or set stack_neighbours to false"
        )


def stack(
    model: nn.Module,
    validation: SampleSet,
    predict: Callable[[SampleSet], np.ndarray],
    *,
    selection: Literal["gauc", "auc", "logloss"],
) -> np.ndarray:
    """Choose the share with the best selection metric, if the model stacks scores; return the predicted CTR of the samples, ``(n,)``.

    Args:
        model: model; its mixture is set.
        validation: the n validation samples.
        predict: scores samples with the model.
        selection: name of the metric; of equal shares the smallest is chosen.
    """
    stacking = _stacking(model)
    if stacking is None:
        return predict(validation)
    stacking.set(Mixture())
    alone = predict(validation)
    if not np.isfinite(alone).all():
        return alone
    logits = logit(alone.astype(np.float64).clip(_SMALLEST, 1 - _SMALLEST))
    z = decode(validation.context[NEIGHBOURS].cpu().numpy()).astype(np.float64)
    scale = logits.std() / z.std() if z.std() else 0.0
    candidates = [Mixture(share, scale, logits.mean() - scale * z.mean()) for share in SHARES]

    def value(mixture: Mixture) -> float:
        mixed = (1 - mixture.share) * logits + mixture.share * (scale * z + mixture.offset)
        return validate(expit(mixed), validation, selection=selection)[1]

    stacking.set(max(candidates, key=value))
    return predict(validation)


def _stacking(model: nn.Module) -> Stacking | None:
    stacking = getattr(model, "stacking", None)
    return stacking if isinstance(stacking, Stacking) else None
