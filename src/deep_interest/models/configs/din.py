"""Options of DIN."""

from typing import Literal

from pydantic import Field

from deep_interest.models.config import Activation, OneInterestConfig


class DINConfig(OneInterestConfig):
    """Options of DIN.

    Attributes:
        normalize: ``none`` preserves the intensity of the interest, Σ w_j (the paper); ``softmax`` normalises the weights
            (the authors' code: softmax of the scores over √D).
        difference: whether the activation unit also sees ``e_j - v_A`` (the authors' code).
        attention_hidden: widths of the hidden layers of the activation unit.
        attention_activation: activation of the activation unit.
        positions: number of embeddings of the distance to the candidate, added to behaviours and candidate (target-aware
            positions, Temporal Interest Network, 2024); 0 for none (the paper).
    """

    normalize: Literal["none", "softmax"] = "none"
    difference: bool = False
    attention_hidden: tuple[int, ...] = Field((80, 40), min_length=1)
    attention_activation: Activation = "prelu"
    positions: int = Field(0, ge=0)
