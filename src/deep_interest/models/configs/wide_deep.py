"""Options of Wide&Deep."""

from pydantic import Field

from deep_interest.models.configs.base import UnfilteredConfig


class WideDeepConfig(UnfilteredConfig):
    """Options of Wide&Deep.

    Attributes:
        cross_rows: maximum number of weights per crossed field; if there are more pairs, they share weights by a hash.
    """

    cross_rows: int = Field(1 << 20, ge=1)
