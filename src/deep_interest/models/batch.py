"""Batch: what a model is given. Histories are jagged; there is no padding."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from deep_interest.logs.schema import Group
from deep_interest.ops.runs import Runs


@dataclass
class Batch:
    """B samples and the N behaviours of their histories.

    Attributes:
        candidate: ``{field: (B,)}`` int32 codes of the candidate item.
        history: ``{field: (N,)}`` int32 codes of the behaviours, sample after sample, oldest first.
        offsets: ``(B + 1,)`` int64; sample b's behaviours are ``[offsets[b], offsets[b + 1])``.
        profile: ``{field: (B,)}`` int32 codes.
        context: ``{field: (B,)}`` int32 codes.
        labels: ``(B,)`` in {0, 1}.
        negatives: ``{field: (N,)}`` codes of an item drawn in place of each behaviour, another than the one clicked; for
            the models that ask for them, in training only.
    """

    candidate: dict[str, Tensor]
    history: dict[str, Tensor]
    offsets: Tensor
    profile: dict[str, Tensor]
    context: dict[str, Tensor]
    labels: Tensor
    negatives: dict[str, Tensor] | None = None

    @property
    def size(self) -> int:
        return len(self.labels)

    @cached_property
    def runs(self) -> Runs:
        """Which behaviours are whose."""
        return Runs(self.offsets)

    def codes(self, group: Group, field: str) -> Tensor:
        """The codes of one field of a feature group."""
        groups = {
            "item": self.candidate,
            "behavior": self.history,
            "profile": self.profile,
            "context": self.context,
        }
        return groups[group][field]


@dataclass
class ModelOutput:
    """What a model returns.

    Attributes:
        logits: ``(B,)``; the predicted CTR is their sigmoid.
        auxiliary_loss: scalar added to the target loss with its weight already applied, or None.
    """

    logits: Tensor
    auxiliary_loss: Tensor | None = None
