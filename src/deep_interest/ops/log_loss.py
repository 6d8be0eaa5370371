"""The target loss of CTR models, with its gradient."""

import math

import torch
import torch.nn.functional as F
from numba import float32
from torch import Tensor

from deep_interest.ops.compiled import arrays, exact, fits


def log_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The mean negative log-likelihood of the labels (DIN eq. 2), and its gradient with respect to the logits.

    Shape: ``logits``, ``labels (B,)`` -> scalar, ``(B,)``; both without a graph.
    """
    logits = logits.detach()
    if not fits(logits, labels):
        gradient = (torch.sigmoid(logits) - labels) / len(labels)
        return F.binary_cross_entropy_with_logits(logits, labels), gradient
    loss, gradient = logits.new_empty(()), logits.new_empty(logits.shape)
    _log_loss(*arrays(logits, labels, loss, gradient))
    return loss, gradient


@exact
def _log_loss(logits, labels, loss, gradient):
    total, one, size = 0.0, float32(1), float32(len(logits))
    for i in range(len(logits)):
        small = math.exp(-abs(logits[i]))
        total += max(logits[i], float32(0)) - logits[i] * labels[i] + math.log1p(small)
        chance = (one if logits[i] > 0 else small) / (one + small)
        gradient[i] = (chance - labels[i]) / size
    loss[()] = total / size
