"""The loss of CTR models, with its gradient."""

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_interest.ops.kernels.loss import log_loss_with_gradient
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled


def log_loss(
    logits: Tensor, labels: Tensor, weights: Tensor | None = None, arrived: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the mean negative log-likelihood of the labels (DIN eq. 2) and its gradient with respect to the logits.

    Each sample's likelihood can have a weight, such as an inverse propensity; the sum is divided by the number of samples.

    With ``arrived``, a label of 0 may become 1: F is the probability that a click is known by now, and the likelihood of the label is
    that of "clicked and known", p F with p = sigmoid(logit) (Chapelle 2014, *Modeling delayed feedback in display advertising*, with a
    given F). Compared with the loss above, the gradient of a label of 0 has the weight F (1 - p) / (1 - p F): 1 if every click is known,
    0 if none can be. The constant -log F of a label of 1 is left out.

    Shape: ``logits``, ``labels``, ``weights``, ``arrived (B,)`` -> scalar, ``(B,)``; neither result requires a gradient.
    """
    logits = logits.detach()
    if arrived is not None:
        return _delayed_log_loss(logits, labels, weights, arrived)
    if weights is not None:
        gradient = (torch.sigmoid(logits) - labels) * weights / len(labels)
        return F.binary_cross_entropy_with_logits(logits, labels, weights), gradient
    if not can_use_compiled(logits, labels):
        gradient = (torch.sigmoid(logits) - labels) / len(labels)
        return F.binary_cross_entropy_with_logits(logits, labels), gradient
    loss, gradient = logits.new_empty(()), logits.new_empty(logits.shape)
    log_loss_with_gradient(*as_arrays(logits, labels, loss, gradient))
    return loss, gradient


def _delayed_log_loss(
    logits: Tensor, labels: Tensor, weights: Tensor | None, arrived: Tensor
) -> tuple[Tensor, Tensor]:
    log_clicked, log_not = F.logsigmoid(logits), F.logsigmoid(-logits)
    log_unseen = torch.logaddexp(log_not, log_clicked + torch.log1p(-arrived))  # log(1 - p F)
    losses = -torch.lerp(log_unseen, log_clicked, labels)
    probability = torch.sigmoid(logits)
    of_unseen = probability * arrived * torch.exp(log_not - log_unseen)
    gradient = torch.lerp(of_unseen, probability - 1, labels) / len(labels)
    if weights is None:
        return losses.mean(), gradient
    return (losses * weights).mean(), gradient * weights
