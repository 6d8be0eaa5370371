"""Options of Boosted."""

from pydantic import Field

from deep_interest.models.config import ModelConfig


class BoostedConfig(ModelConfig):
    """Options of Boosted.

    Attributes:
        max_samples: number of training samples that the trees are grown on, a random subset of all; rates use all of them.
        iterations: maximum number of trees; boosting stops earlier if the loss on held-out users no longer improves.
        learning_rate: weight of each tree.
        leaves: maximum number of leaves of a tree.
        min_leaf: minimum number of samples in a leaf.
    """

    max_samples: int = Field(1_000_000, ge=1)
    iterations: int = Field(500, ge=1)
    learning_rate: float = Field(0.05, gt=0)
    leaves: int = Field(31, ge=2)
    min_leaf: int = Field(50, ge=1)
