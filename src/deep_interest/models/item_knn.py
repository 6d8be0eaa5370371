"""Item kNN: how each item of the history, and its outcome, moves the candidate's positive rate."""

from deep_interest.models.closed_form import FittedModel
from deep_interest.models.config import ModelConfig


class ItemKNNConfig(ModelConfig):
    pass


class ItemKNN(FittedModel):
    Config = ItemKNNConfig
