"""Options of BST."""

from typing import Literal

from pydantic import Field

from deep_interest.models.config import DeepConfig


class BSTConfig(DeepConfig):
    """Options of BST; the defaults are the paper's.

    Attributes:
        heads: number of heads of the self-attention.
        blocks: number of transformer blocks.
        sequence_length: length of the sequence of the newest behaviours and the candidate.
        output: ``all`` concatenates the outputs of all positions, ``candidate`` uses that of the candidate alone.
        dropout: dropout rate of the outputs of attention and feed-forward net.
    """

    heads: int = Field(8, ge=1)
    blocks: int = Field(1, ge=1)
    sequence_length: int = Field(20, ge=2)
    output: Literal["all", "candidate"] = "all"
    dropout: float = Field(0.2, ge=0, lt=1)
