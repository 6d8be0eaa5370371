"""Options of SIM."""

from typing import Literal

from pydantic import Field

from deep_interest.models.configs.long_history import LongHistoryConfig


class SIMConfig(LongHistoryConfig):
    """Options of SIM.

    Attributes:
        search: ``category`` (hard search) or ``soft`` (inner products, trained by a loss of their own).
        search_field: field that a behaviour and the candidate must have in common in the hard search.
        search_width: width of the projections whose inner products the soft search ranks by.
        search_weight: weight of the loss of the soft search (α; the paper's is 1).
        search_sample: behaviours of a history, drawn with replacement, on which the soft search is trained; all of a
            shorter history.
        heads: number of heads of the attention to the selected behaviours.
    """

    search: Literal["category", "soft"] = "category"
    search_field: str = "category"
    search_width: int = Field(16, ge=1)
    search_weight: float = Field(1.0, gt=0)
    search_sample: int = Field(100, ge=1)
    heads: int = Field(2, ge=1)
