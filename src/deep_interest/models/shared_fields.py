"""The fields that behaviours share with the candidate."""

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema


class SameFields:
    """Select the fields of the candidate's vector that a behaviour has, in the order of the behaviour.

    The fields that only a behaviour has are 0 for the candidate: a model that compares both sees them unchanged, since
    ``[e; v; e∘v; e-v]`` is ``[e; 0; 0; e]`` there.

    Args:
        schema: feature groups.
        dim: embedding width of a field.
        width: width of a behaviour, including the fields that only a behaviour has.
        model: name of the model, for the error message.

    Raises:
        InputError: behaviours and candidate share no field.
    """

    def __init__(self, schema: FeatureSchema, dim: int, width: int, *, model: str) -> None:
        names = [field.name for field in schema.item]
        if not schema.shared:
            raise InputError(
                f"features.behavior: {model} compares a behaviour's fields with the candidate's, but a behaviour has none of the item "
                f"fields {', '.join(names)}; add one of them"
            )
        self.dim = dim
        self.order = [names.index(field.name) for field in schema.shared]
        self.same_order = self.order == list(range(len(names)))
        self.missing = width - len(self.order) * dim

    def __call__(self, candidate: Tensor) -> Tensor:
        """Shape: ``(B, item_width) -> (B, behavior_width)``."""
        if not self.same_order:
            fields = candidate.split(self.dim, dim=1)
            candidate = torch.cat([fields[index] for index in self.order], dim=1)
        return F.pad(candidate, (0, self.missing)) if self.missing else candidate


class InterestProduct:
    """The product of a history's vector and the candidate, element by element: the fields that both have.

    Args:
        schema: feature groups.
        dim: embedding width of a field.
        interest_width: width of the history's vector, which begins with the shared fields.

    Raises:
        InputError: the history's vector is narrower than the shared fields, or there are none.
    """

    def __init__(self, schema: FeatureSchema, dim: int, interest_width: int) -> None:
        self.width = len(schema.shared) * dim
        if interest_width < self.width:
            raise InputError(
                f"interest_product: found a history's vector of width {interest_width}, but the product needs one as wide as the fields "
                f"that behaviours share with the candidate, {self.width}; set interest_product to false, or remove gru_size"
            )
        self.same_fields = SameFields(schema, dim, self.width, model="interest_product")
        self.candidate = slice(interest_width, interest_width + len(schema.item) * dim)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return the product, ``(B, width)``, from the inputs of the MLP, which begin with the history's vector and the candidate."""
        return inputs[:, : self.width] * self.same_fields(inputs[:, self.candidate])
