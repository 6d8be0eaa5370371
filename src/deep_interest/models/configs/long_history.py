"""Options that the models of long histories share."""

from typing import Literal

from pydantic import Field

from deep_interest.models.config import Activation, DeepConfig


class ShortConfig(DeepConfig):
    """Options of the attention to the newest behaviours, next to a long history.

    Attributes:
        short_length: number of the newest behaviours; 0 for none.
        short_attention: ``din`` (the activation unit) or ``target`` (multi-head target attention).
        heads, head_width: number of heads of the target attention, and the width of each.
        attention_hidden, attention_activation: hidden widths and activation of the activation unit.
    """

    short_length: int = Field(50, ge=0)
    short_attention: Literal["din", "target"] = "din"
    heads: int = Field(4, ge=1)
    head_width: int = Field(16, ge=1)
    attention_hidden: tuple[int, ...] = Field((80, 40), min_length=1)
    attention_activation: Activation = "prelu"


class LongHistoryConfig(ShortConfig):
    """Options of a model that searches a long history.

    Attributes:
        search_length: most behaviours that the search selects for a candidate, K.
    """

    search_length: int = Field(50, ge=1)
