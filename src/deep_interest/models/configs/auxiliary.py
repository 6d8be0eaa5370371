"""Options of models with DIEN's auxiliary loss (DIEN eq. 7)."""

from typing import Literal

from pydantic import Field

from deep_interest.models.config import DeepConfig


class AuxiliaryConfig(DeepConfig):
    """Options of models with an auxiliary loss.

    Attributes:
        aux_weight: α of eq. 8; 0 for no auxiliary loss.
        aux_score: ``inner`` product (eq. 7) or a small ``net`` over the concatenation (100-50-1, the authors' code).
        aux_scale: divisor of the sum over all positions: the number of ``positions`` (the authors' code) or of
            ``sequences``, that is, samples (eq. 7).
        aux_contrast: ``binary`` (eq. 7) or ``infonce``.
        aux_negatives: negatives per position (``infonce``).
    """

    aux_weight: float = Field(0.0, ge=0)
    aux_score: Literal["inner", "net"] = "inner"
    aux_scale: Literal["positions", "sequences"] = "positions"
    aux_contrast: Literal["binary", "infonce"] = "binary"
    aux_negatives: int = Field(8, ge=1)
