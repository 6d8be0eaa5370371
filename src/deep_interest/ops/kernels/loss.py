"""The loop of the log loss."""

import math

from numpy import float32

from deep_interest.ops.runtime.jit import njit_strict


@njit_strict
def log_loss_with_gradient(logits, labels, loss, gradient):
    """Mean log loss of ``logits (B,)``; OUT ``loss ()`` and ``gradient (B,)``. No exponential overflows."""
    total, one, size = 0.0, float32(1), float32(len(logits))
    for i in range(len(logits)):
        small = math.exp(-abs(logits[i]))
        total += max(logits[i], float32(0)) - logits[i] * labels[i] + math.log1p(small)
        probability = (one if logits[i] > 0 else small) / (one + small)
        gradient[i] = (probability - labels[i]) / size
    loss[()] = total / size
