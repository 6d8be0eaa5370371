"""Trained models: the parent that a warm start continues from, and the result of a fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.registry import build_model, stored_config


@dataclass(frozen=True)
class Parent:
    """The model that a warm start continues from.

    Attributes:
        id: name of the version, and, where `kept_rows.keep_rows` has left out some of its rows, a hash of those that are left.
        weights: parameters by name.
        optimizer: state of the optimiser.
        schema: features of the model.
        config: options of the model.
        training: options that it was trained with.
    """

    id: str
    weights: Mapping[str, Tensor]
    optimizer: dict[str, Any]
    schema: FeatureSchema
    config: dict[str, Any]
    training: dict[str, Any]

    def model(self, key: str) -> nn.Module:
        """Build the model with its parameters."""
        model = build_model(key, stored_config(key, self.config), self.schema)
        model.load_state_dict(dict(self.weights))
        return model


@dataclass(frozen=True)
class FittedModel:
    """A trained model.

    Attributes:
        weights: parameters by name, on the CPU.
        optimizer: state of the optimiser, on the CPU.
        schema: features of the model.
        config, training: options as plain values.
        identity: hash of everything that determines the result.
        samples: number of samples trained on, over all epochs.
        seconds: training time in seconds.
    """

    weights: dict[str, Tensor]
    optimizer: dict[str, Any]
    schema: FeatureSchema
    config: dict[str, Any]
    training: dict[str, Any]
    identity: str
    samples: int
    seconds: float

    def as_parent(self) -> Parent:
        """Return the model as the parent of a warm start."""
        return Parent(self.identity, self.weights, self.optimizer, self.schema, self.config, self.training)

    def model(self, key: str) -> nn.Module:
        """Build the model with its parameters."""
        return self.as_parent().model(key)
