"""The target loss of CTR models with its gradient, in one pass."""

import numpy as np
import torch
import torch.nn.functional as F
from numba import float32
from torch import Tensor

from deep_interest.ops.compiled import arrays, exact, fits


def log_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The mean negative log-likelihood of the labels (DIN eq. 2), and its gradient with respect to the logits.

    Shape: ``logits``, ``labels (B,)`` -> scalar, ``(B,)``. Autograd sees neither.
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
    total, size = 0.0, len(logits)
    for i in range(size):
        logit, label = np.float64(logits[i]), np.float64(labels[i])
        small = np.exp(-abs(logit))
        total += max(logit, 0.0) - logit * label + np.log1p(small)
        chance = (1.0 if logit > 0 else small) / (1.0 + small)
        gradient[i] = float32((chance - label) / size)
    loss[()] = float32(total / size)
