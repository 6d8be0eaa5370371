"""What embedding tables of reduced precision cost: the loss in GAUC on the held-out day, its check in the gate, and their memory."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from deep_interest.evaluation.metrics import per_user_auc
from deep_interest.evaluation.significance import FEWEST_USERS, Interval, difference_interval
from deep_interest.models.embeddings import tables_without_rows
from deep_interest.models.packed_tables import memory_of_tables, pack_tables, tables_to_pack
from deep_interest.ops.limits import TablePrecision
from deep_interest.retraining.gate import Check, Verdict
from deep_interest.retraining.parameters import GateParameters


@dataclass(frozen=True)
class TableLoss:
    """A model with tables of reduced precision, compared with the same model in float32 on the held-out day.

    Attributes:
        precision: precision of the tables.
        gauc_float32: GAUC with tables in float32.
        loss: GAUC with tables in float32 minus GAUC with the reduced ones, paired over users; None if undefined.
        megabytes, megabytes_float32: memory of the tables.
    """

    precision: TablePrecision
    gauc_float32: float
    loss: Interval | None
    megabytes: float
    megabytes_float32: float


def table_loss(
    users: ArrayLike, labels: ArrayLike, score: Callable[[nn.Module], ArrayLike], make: Callable[[], nn.Module],
    precision: TablePrecision, gate: GateParameters,
) -> tuple[np.ndarray, TableLoss | None]:  # fmt: skip
    """Score the held-out day as the version will serve, and compare with tables in float32.

    Args:
        users: ``(n,)`` ids.
        labels: ``(n,)`` in {0, 1}.
        score: returns the predicted CTRs ``(n,)`` of a model.
        make: returns a new copy of the model, in float32.
        precision: precision of the tables with which the version will serve.
        gate: conditions, with the confidence of the interval.

    Returns:
        Predicted CTRs ``(n,)`` with these tables, and the comparison; None for float32.
    """
    model = make()
    whole = memory_of_tables(model)
    if not pack_tables(model, precision):
        return np.asarray(score(model)), None
    size, scores = memory_of_tables(model), np.asarray(score(model))
    users, labels = np.asarray(users), np.asarray(labels)
    full, packed = per_user_auc(users, labels, score(make())), per_user_auc(users, labels, scores)
    enough = len(full.users) >= FEWEST_USERS
    return scores, TableLoss(
        precision,
        full.gauc().value if len(full.users) else np.nan,
        difference_interval(full, packed, confidence=1 - gate.level) if enough else None,
        size / 1e6, whole / 1e6,
    )  # fmt: skip


def with_table_loss(verdict: Verdict, loss: TableLoss | None, gate: GateParameters) -> Verdict:
    """Add the comparison to a verdict, and the check that the upper end of the loss is not above ``quantisation_loss``."""
    if loss is None:
        return verdict
    upper = np.nan if loss.loss is None else loss.loss.high
    check = Check(
        f"GAUC loss of {loss.precision} tables, upper end", upper, f"at most {gate.quantisation_loss:g}",
        upper <= gate.quantisation_loss,
    )  # fmt: skip
    return replace(
        verdict, promoted=verdict.promoted and check.passed, checks=(*verdict.checks, check), tables=loss
    )


def check_can_pack(make: Callable[[], nn.Module], precision: TablePrecision) -> None:
    """Check, before a model is trained, that it has tables that become smaller in a precision.

    Raises:
        InputError: it has none.
    """
    if precision != "float32":
        with tables_without_rows():
            tables_to_pack(make(), precision)
