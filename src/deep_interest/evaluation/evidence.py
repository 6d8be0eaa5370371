"""Is a test set large enough for an interval?"""

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field

from deep_interest.evaluation.significance import FEWEST_USERS


class EvaluationParameters(BaseModel):
    """What a test set needs before differences get intervals, stars and verdicts, and how large a loss counts.

    Attributes:
        minimum_users: users with both a positive and a negative test sample.
        minimum_positives: positive test samples of these users.
        margin: loss in GAUC that does not count when the smallest model that is not worse is chosen.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    minimum_users: int = Field(50, ge=FEWEST_USERS)
    minimum_positives: int = Field(100, ge=1)
    margin: float = Field(0.002, gt=0, lt=0.5)


def shortage(users: ArrayLike, labels: ArrayLike, minimum: EvaluationParameters) -> str | None:
    """Say what a test set lacks; None if it is large enough.

    Args:
        users: ``(n,)`` ids, one per test sample.
        labels: ``(n,)`` in {0, 1}.
        minimum: what is needed.
    """
    found, positives = evidence(users, labels)
    lacking = [
        f"{count:,} {what} (at least {needed:,} are needed: evaluation.{parameter})"
        for count, needed, what, parameter in (
            (found, minimum.minimum_users, "users with both classes", "minimum_users"),
            (positives, minimum.minimum_positives, "positive samples of such users", "minimum_positives"),
        )
        if count < needed
    ]
    return f"the test set has only {' and '.join(lacking)}" if lacking else None


def evidence(users: ArrayLike, labels: ArrayLike) -> tuple[int, int]:
    """Number of users with both classes, and of their positive samples."""
    labels = np.asarray(labels)
    _, user = np.unique(np.asarray(users), return_inverse=True)
    samples = np.bincount(user)
    positives = np.bincount(user, weights=labels == 1, minlength=len(samples))
    both = (positives > 0) & (positives < samples)
    return int(both.sum()), int(positives[both].sum())
