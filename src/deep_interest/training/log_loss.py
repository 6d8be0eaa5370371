"""The target loss of CTR models, with its gradient."""

import torch
import torch.nn.functional as F
from torch import Tensor


def log_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The mean negative log-likelihood of the labels (DIN eq. 2), and its gradient with respect to the logits.

    Shape: ``logits``, ``labels (B,)`` -> scalar, ``(B,)``; both without a graph.
    """
    logits = logits.detach()
    gradient = (torch.sigmoid(logits) - labels) / len(labels)
    return F.binary_cross_entropy_with_logits(logits, labels), gradient
