"""The loss of CTR models, with its gradient."""

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_interest.ops.kernels.loss import log_loss_with_gradient
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled


def log_loss(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Compute the mean negative log-likelihood of the labels (DIN eq. 2) and its gradient with respect to the logits.

    Each sample's likelihood can have a weight, such as an inverse propensity; the sum is divided by the number of samples.

    Shape: ``logits``, ``labels``, ``weights (B,)`` -> scalar, ``(B,)``; neither result requires a gradient.
    """
    logits = logits.detach()
    if weights is not None:
        gradient = (torch.sigmoid(logits) - labels) * weights / len(labels)
        return F.binary_cross_entropy_with_logits(logits, labels, weights), gradient
    if not can_use_compiled(logits, labels):
        gradient = (torch.sigmoid(logits) - labels) / len(labels)
        return F.binary_cross_entropy_with_logits(logits, labels), gradient
    loss, gradient = logits.new_empty(()), logits.new_empty(logits.shape)
    log_loss_with_gradient(*as_arrays(logits, labels, loss, gradient))
    return loss, gradient
