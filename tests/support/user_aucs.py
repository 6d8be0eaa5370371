"""AUCs of users with one row each."""

import numpy as np

from deep_interest.evaluation import UserAUC


def users_of(auc) -> UserAUC:
    """Return users with these AUCs and equal weights."""
    auc = np.asarray(auc, dtype=float)
    return UserAUC(np.arange(len(auc)), np.ones(len(auc), int), auc, len(auc), len(auc))
