"""What scoring in reduced precision costs: the loss in GAUC on the held-out day, and its check in the gate."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from deep_interest.evaluation.metrics import per_user_auc
from deep_interest.evaluation.significance import FEWEST_USERS, Interval, difference_interval
from deep_interest.models.config import Precision
from deep_interest.models.embeddings import tables_without_rows
from deep_interest.models.packed_tables import memory_of_tables
from deep_interest.models.precision import check_precision, reduce_precision
from deep_interest.ops.limits import AttentionPrecision, TablePrecision
from deep_interest.retraining.gate import Check, Verdict
from deep_interest.retraining.parameters import GateParameters


@dataclass(frozen=True)
class PrecisionLoss:
    """A model in reduced precision, compared with the same model in float32 on the held-out day.

    Attributes:
        tables, attention: precision of the embedding tables, and of the products in the activation unit.
        gauc_float32: GAUC in float32.
        loss: GAUC in float32 minus GAUC in reduced precision, paired over users; None if undefined.
        megabytes, megabytes_float32: memory of the tables.
    """

    tables: TablePrecision
    attention: AttentionPrecision
    gauc_float32: float
    loss: Interval | None
    megabytes: float
    megabytes_float32: float


def precision_loss(
    users: ArrayLike, labels: ArrayLike, score: Callable[[nn.Module], ArrayLike], make: Callable[[], nn.Module],
    precision: Precision, gate: GateParameters,
) -> tuple[np.ndarray, PrecisionLoss | None]:  # fmt: skip
    """Score the held-out day as the version will serve, and compare with float32.

    Args:
        users: ``(n,)`` ids.
        labels: ``(n,)`` in {0, 1}.
        score: returns the predicted CTRs ``(n,)`` of a model.
        make: returns a new copy of the model, in float32.
        precision: precision in which the version will serve.
        gate: conditions, with the confidence of the interval.

    Returns:
        Predicted CTRs ``(n,)`` in this precision, and the comparison; None for float32.
    """
    model = make()
    if not precision.is_reduced:
        return np.asarray(score(model)), None
    whole = memory_of_tables(model)
    reduce_precision(model, precision)
    size, scores = memory_of_tables(model), np.asarray(score(model))
    users, labels = np.asarray(users), np.asarray(labels)
    full, reduced = per_user_auc(users, labels, score(make())), per_user_auc(users, labels, scores)
    enough = len(full.users) >= FEWEST_USERS
    return scores, PrecisionLoss(
        precision.tables, precision.attention,
        full.gauc().value if len(full.users) else np.nan,
        difference_interval(full, reduced, confidence=1 - gate.level) if enough else None,
        size / 1e6, whole / 1e6,
    )  # fmt: skip


def with_precision_loss(verdict: Verdict, loss: PrecisionLoss | None, gate: GateParameters) -> Verdict:
    """Add the comparison to a verdict, and the check that the upper end of the loss is not above ``quantisation_loss``."""
    if loss is None:
        return verdict
    upper = np.nan if loss.loss is None else loss.loss.high
    check = Check(
        f"GAUC loss of {Precision(tables=loss.tables, attention=loss.attention)}, upper end", upper,
        f"at most {gate.quantisation_loss:g}", upper <= gate.quantisation_loss,
    )  # fmt: skip
    return replace(
        verdict, promoted=verdict.promoted and check.passed, checks=(*verdict.checks, check), precision=loss
    )


def check_can_reduce(make: Callable[[], nn.Module], precision: Precision) -> None:
    """Check, before a model is trained, that it can score in a precision.

    Raises:
        InputError: it has no tables that become smaller, or no activation unit that can use bfloat16.
    """
    if precision.is_reduced:
        with tables_without_rows():
            check_precision(make(), precision)
