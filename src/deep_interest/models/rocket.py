"""Rocket Launching: a light net is trained together with a booster net and is served without it (Zhou et al., AAAI 2018).

Both nets see the same embeddings and have upper layers of their own. With logits ``l`` of the light net and ``z`` of the booster, and
``H`` the cross entropy, the loss is

    H(y, σ(l)) + H(y, σ(z)) + λ (l - z)²

as a mean over the samples of a batch. With gradient block, ``z`` is a constant of the last term: the hint loss moves neither the
booster nor, by way of the booster, the embeddings.
"""

from abc import ABC
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import Embedded, EmbeddingMLP
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.configs.rocket import LightDIENConfig, LightDINConfig, RocketConfig
from deep_interest.models.dien import DIEN
from deep_interest.models.din import DIN


class RocketLaunching(EmbeddingMLP, ABC):
    """A light net with a booster net that exists in training only.

    The model *is* the light net: its parameters have the names that they have in the light net's class, and those of the booster
    begin with ``booster.``. Evaluation computes the light net alone.

    Own fields of behaviours, further sequences and the item bias are part of the embeddings that both nets share.
    """

    training_only = ("booster",)

    booster: EmbeddingMLP | None

    def launch_with(self, booster: EmbeddingMLP | None, config: RocketConfig) -> None:
        """Set the booster, at the end of the initialisation.

        Args:
            booster: the booster, without embeddings; None if it is not trained together with the light net.
            config: options.
        """
        self.booster = booster
        self.mode = config.booster
        self.hint_weight, self.gradient_block = config.hint_weight, config.gradient_block

    @property
    def needs_booster_logits(self) -> bool:
        """Whether training needs `Batch.booster_logits`."""
        return self.mode == "frozen"

    def forward(self, batch: Batch) -> ModelOutput:
        """Return the logits of the light net and, in training, the other losses.

        The auxiliary loss is that of the booster, H(y, σ(z)) + λ (l - z)² and the booster's own auxiliary loss, or with a
        booster that was trained before, λ (l - z)² with ``z`` from ``batch.booster_logits``, if the batch has them.
        """
        if not self.training or self.mode == "none":
            return super().forward(batch)
        embedded = self.look_up(batch)
        features, _ = self.features_of(embedded, batch)
        logits = self.logits(features, batch)
        if self.mode == "joint":
            return ModelOutput(logits, self._loss_with_booster(logits, embedded, batch))
        return ModelOutput(
            logits, None if batch.booster_logits is None else self._hint(logits, batch.booster_logits, batch)
        )

    def _loss_with_booster(self, logits: Tensor, embedded: Embedded, batch: Batch) -> Tensor:
        assert self.booster is not None
        features, auxiliary_loss = self.booster.features_of(embedded, batch)
        booster_logits = self.with_item_bias(self.booster.logits(features, batch), batch)
        labels, weights = batch.labels.to(booster_logits.dtype), batch.weights
        loss = F.binary_cross_entropy_with_logits(booster_logits, labels, weights)
        target = booster_logits.detach() if self.gradient_block else booster_logits
        loss = loss + self._hint(logits, target, batch)
        return loss if auxiliary_loss is None else loss + auxiliary_loss

    def _hint(self, logits: Tensor, target: Tensor, batch: Batch) -> Tensor:
        squares = (logits - target).square()
        return self.hint_weight * (squares if batch.weights is None else squares * batch.weights).mean()


class LightDIN(RocketLaunching, DIN):
    """A DIN with a narrower activation unit and MLP; the booster is a DIN."""

    Config = LightDINConfig

    def __init__(self, config: LightDINConfig, schema: FeatureSchema) -> None:
        booster = without_embeddings(DIN(config.of_booster(), schema)) if config.booster == "joint" else None
        super().__init__(config.of_light_net(), schema)
        self.launch_with(booster, config)

    def _representing(self, config: Any, schema: FeatureSchema) -> EmbeddingMLP:
        return DIN(config, schema)


class LightDIEN(RocketLaunching, DIEN):
    """A DIEN with narrower GRUs and MLP; the booster is a DIEN.

    DIEN's auxiliary loss (eq. 7) applies to the booster: it compares states with behaviours, whose width those of the light net do not have.
    It trains the shared embeddings too.

    Raises:
        InputError: there is an auxiliary loss, but the width of the booster's GRUs differs from that of a behaviour.
    """

    Config = LightDIENConfig

    def __init__(self, config: LightDIENConfig, schema: FeatureSchema) -> None:
        booster = without_embeddings(DIEN(config.of_booster(), schema)) if config.booster == "joint" else None
        super().__init__(config.of_light_net(len(schema.shared) * config.embedding_dim), schema)
        self.launch_with(booster, config)
        self.uses_negatives = booster is not None and config.aux_weight > 0

    def _representing(self, config: Any, schema: FeatureSchema) -> EmbeddingMLP:
        return DIEN(config, schema)


def without_embeddings(net: EmbeddingMLP) -> EmbeddingMLP:
    """Remove all embedding tables of a net, and return it: it can only compute `features_of` and `logits`, without item bias."""
    del net.embeddings
    parts: list[EmbeddingMLP] = [net, *net.sequence_models.values()]
    for part in parts:
        part.own_fields = part.item_bias = part.stacking = None
    return net
