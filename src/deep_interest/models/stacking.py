"""Stacking (Wolpert 1992): the share of the neighbourhood's score in a prediction is chosen on validation data.

A model with the context feature `neighbours` learns in training how far to trust it, next to embeddings that know the training users. Where
they fit those better than new users, training gives the score, which is cross-fitted, too little weight for new users. The weight that
is best for new users is seen on validation users only.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import NEIGHBOURS
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch
from deep_interest.models.dense import z_of


class Mixture(NamedTuple):
    """How logits and scores of the neighbourhood are mixed: ``(1 - share) logit + share (scale · z + offset)``."""

    share: float = 0.0
    scale: float = 0.0
    offset: float = 0.0


class Stacking(nn.Module):
    """Mixes the score of the neighbourhood into the logits in evaluation; training does not see it.

    ``z`` is the standardised context feature `neighbours`, 0 for a missing one. The mixture is stored with the parameters; at first it is
    the logit alone. `training.stacking` chooses it.
    """

    mixture: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mixture", torch.tensor(Mixture()))

    def set(self, mixture: Mixture) -> None:
        """Set the mixture."""
        self.mixture.copy_(torch.tensor(mixture))

    def forward(self, logits: Tensor, z: Tensor) -> Tensor:
        """Mix logits with standardised scores. Shape: ``(B,), (B,) -> (B,)``."""
        share, scale, offset = self.mixture.to(logits.dtype)
        return logits.lerp((scale * z + offset).to(logits.dtype), share)


def stacking_of(schema: FeatureSchema, *, wanted: bool) -> Stacking | None:
    """Return the module of the option ``stack_neighbours``; None without the option.

    Raises:
        InputError: samples have no score of the neighbourhood.
    """
    if not wanted:
        return None
    if not any(field.name == NEIGHBOURS and field.dense for field in schema.context):
        raise InputError(
            f"stack_neighbours: the model sees no score of the neighbourhood; set features.{NEIGHBOURS} of the dataset (a number of "
            f"behaviours) and do not remove {NEIGHBOURS} with `without`, or set stack_neighbours to false"
        )
    return Stacking()


def stacked(stacking: Stacking | None, logits: Tensor, batch: Batch, *, training: bool) -> Tensor:
    """Return the logits, mixed with the scores of the neighbourhood if the model stacks them and is not being trained."""
    if stacking is None or training:
        return logits
    return stacking(logits, z_of(batch.context[NEIGHBOURS], logits.dtype))
