"""DIEN and its variants: a GRU extracts interests, a second, attention-gated GRU models their evolution."""

from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.attention import ActivationAttention, BilinearAttention
from deep_interest.models.auxiliary import AuxiliaryLoss
from deep_interest.models.base import EmbeddingMLP, Interest
from deep_interest.models.batch import Batch
from deep_interest.models.configs.dien import DIENConfig, Evolution
from deep_interest.models.recurrent import GRU, Variant
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.jagged_products import weighted_sum
from deep_interest.ops.segments import expand

_VARIANTS: dict[Evolution, Variant] = {
    "attention": "gru", "aigru": "gru", "agru": "agru", "augru": "augru", "augru_code": "augru_code",
}  # fmt: skip


class DIEN(EmbeddingMLP):
    """Interest extractor (eq. 3-8) and interest evolution (eq. 9-13).

    Raises:
        InputError: there is an auxiliary loss, but the width of the GRUs differs from that of a behaviour.
    """

    Config = DIENConfig

    def __init__(self, config: DIENConfig, schema: FeatureSchema) -> None:
        width = len(schema.shared) * config.embedding_dim
        hidden = config.gru_size or width
        super().__init__(config, schema, interest_width=hidden)
        self.evolution = config.evolution
        self.extractor = GRU(self.behavior_width, hidden)
        attention = ActivationAttention if config.attention == "din" else BilinearAttention
        self.attention = attention(hidden, self.item_width)
        self.evolution_gru = GRU(hidden, hidden, variant=_VARIANTS[config.evolution])
        self.uses_negatives = config.aux_weight > 0
        self.auxiliary = None
        if self.uses_negatives:
            if hidden != width:
                raise InputError(
                    f"gru_size: found {hidden}, but the auxiliary loss compares states with behaviours of width {width}; remove "
                    "gru_size or set aux_weight to 0"
                )
            self.auxiliary = AuxiliaryLoss(width, config)

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        if batch.negative_vectors is None or self.auxiliary is None:
            return Interest(self._evolve(self.extractor(history, batch.histories), candidate, batch))
        states = self.extractor(history, batch.histories)  # (N, H)
        assert batch.shared_vectors is not None
        loss = self.auxiliary(states, batch.shared_vectors, batch.negative_vectors, batch)
        return Interest(self._evolve(states, candidate, batch), loss)

    def _evolve(self, states: Tensor, candidate: Tensor, batch: Batch) -> Tensor:
        """Shape: ``states (N, H)``, ``candidate (B, item_width)`` -> ``(B, H)``."""
        if self.evolution == "attention":
            weights, evolved = self._weights_and_states(states, candidate, batch)
            return weighted_sum(weights, expand(evolved, batch.pairs), batch.pairs)
        return self.evolution_gru.last(*self._gru_inputs(states, candidate, batch)[1])

    def _weights_and_states(self, states: Tensor, candidate: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the attention weight of each behaviour of each pair ``(P,)`` and the states of the second GRU.

        The states are ``(P, H)``, or ``(N, H)`` if they do not depend on the candidate (``attention``).
        """
        if self.evolution == "attention":
            states = self.evolution_gru(states, batch.histories)
            return self.attention(states, candidate, batch.pairs), states
        weights, inputs = self._gru_inputs(states, candidate, batch)
        return weights, self.evolution_gru(*inputs)

    def _gru_inputs(
        self, states: Tensor, candidate: Tensor, batch: Batch
    ) -> tuple[Tensor, tuple[Tensor, Jagged, Tensor | None]]:
        """Return the attention weight of each behaviour of each pair ``(P,)``, and the arguments of the second GRU."""
        pairs = batch.pairs
        weights = self.attention(states, candidate, pairs)
        if self.evolution == "aigru":
            return weights, (weights.unsqueeze(1) * expand(states, pairs), pairs.gathered, None)
        return weights, (states, pairs, weights)

    def attention_weights(self, batch: Batch) -> Tensor:
        """Return the attention weight of each behaviour of each pair, ``(P,)``; the weights of a pair sum to 1."""
        return self.interest_evolution(batch)[0]

    def interest_evolution(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the attention weights ``(P,)`` and the states of the second GRU ``(P, H)`` of each pair."""
        history, candidate = self.embed(batch)
        weights, states = self._weights_and_states(self.extractor(history, batch.histories), candidate, batch)
        return weights, expand(states, batch.pairs) if self.evolution == "attention" else states
