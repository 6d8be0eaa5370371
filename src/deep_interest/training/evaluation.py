"""Score a split, and compute the validation metric that selects the best evaluation."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import auc, gauc, logloss
from deep_interest.ops.runtime.memory import BufferPool, use_pool
from deep_interest.training.data import SampleSet


def predict(model: nn.Module, samples: SampleSet, *, batch_size: int) -> np.ndarray:
    """Predict the CTR of every sample, ``(n,)`` float32, in the order of the samples."""
    return _outputs(model, samples, torch.sigmoid, batch_size=batch_size).cpu().numpy()


def predict_logits(model: nn.Module, samples: SampleSet, *, batch_size: int) -> Tensor:
    """Compute the logit of every sample, ``(n,)`` float32 on the device of the samples, in their order."""
    return _outputs(model, samples, torch.Tensor.detach, batch_size=batch_size)


@torch.no_grad()
def _outputs(
    model: nn.Module, samples: SampleSet, of_logits: Callable[[Tensor], Tensor], *, batch_size: int
) -> Tensor:
    model.eval()
    scores = torch.empty_like(samples.labels)  # one array: a list of pieces would fragment the memory
    numbers = torch.arange(len(samples))
    with use_pool(BufferPool()):
        for rows, out in zip(numbers.split(batch_size), scores.split(batch_size), strict=True):
            out.copy_(of_logits(model(samples.batch(rows)).logits))
    return scores


def validate(
    scores: np.ndarray, samples: SampleSet, *, selection: Literal["gauc", "auc", "logloss"]
) -> tuple[float, float]:
    """Compute the validation loss and the selection metric, with a sign such that larger is better.

    Args:
        scores: ``(n,)`` predicted CTR.
        samples: the n validation samples.
        selection: name of the metric.

    Raises:
        InputError: the metric is undefined because all labels are equal.
    """
    labels = samples.labels.cpu().numpy()
    loss = logloss(labels, scores)
    metrics: dict[str, Callable[[], float]] = {
        "gauc": lambda: gauc(samples.user.cpu().numpy(), labels, scores).value,
        "auc": lambda: auc(labels, scores),
        "logloss": lambda: -loss,
    }
    value = metrics[selection]()
    if math.isnan(value):
        raise InputError(
            f"{selection} is undefined because all labels of the {len(labels)} validation samples are equal; provide more "
            "validation data, or set selection to logloss"
        )
    return loss, value


def watch(scores: np.ndarray, samples: SampleSet) -> dict[str, float]:
    """Compute loss, AUC and GAUC of the predictions ``scores (n,)`` of a split, for learning curves."""
    labels = samples.labels.cpu().numpy()
    return {
        "loss": logloss(labels, scores),
        "auc": auc(labels, scores),
        "gauc": gauc(samples.user.cpu().numpy(), labels, scores).value,
    }
