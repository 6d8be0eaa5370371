"""Logistic regression on a few columns by Newton's method."""

import torch
from torch import Tensor

_NEWTON_STEPS = 50
_DAMPING = 1e-6  # of the Newton steps, so that collinear columns have a solution


def fit_logistic(
    design: Tensor, labels: Tensor, *, towards: Tensor | None = None, strength: float = 0.0
) -> Tensor:
    """Return the coefficients that maximise the likelihood minus ``strength / 2 · |β - towards|²``.

    Args:
        design: ``(n, k)`` columns, including one of ones for an intercept.
        labels: ``(n,)`` in {0, 1}.
        towards: ``(k,)`` coefficients without any data; zeros if None.
        strength: strength of the penalty.

    Returns:
        ``(k,)``.
    """
    prior = design.new_zeros(design.shape[1]) if towards is None else towards
    beta = prior.clone()
    diagonal = (strength + _DAMPING) * torch.eye(len(prior), dtype=design.dtype, device=design.device)
    for _ in range(_NEWTON_STEPS):
        p = torch.sigmoid(design @ beta)
        hessian = design.T @ (design * (p * (1 - p)).unsqueeze(1)) + diagonal
        step = torch.linalg.solve(hessian, design.T @ (labels - p) - strength * (beta - prior))
        beta += step
        if step.abs().max() < 1e-10:
            break
    return beta
