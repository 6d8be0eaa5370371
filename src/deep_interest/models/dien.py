"""DIEN and its relatives: interests extracted by a GRU, their evolution by a second one that the candidate steers."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.attention import ActivationAttention, BilinearAttention
from deep_interest.models.auxiliary import AuxiliaryConfig, AuxiliaryLoss
from deep_interest.models.base import EmbeddingMLP, Interest
from deep_interest.models.batch import Batch
from deep_interest.models.recurrent import GRU, Cell
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.jagged_products import weighted_sum
from deep_interest.ops.segments import expand, fan_out

Evolution = Literal["attention", "aigru", "agru", "augru", "augru_code"]
_CELLS: dict[Evolution, Cell] = {
    "attention": "gru", "aigru": "gru", "agru": "agru", "augru": "augru", "augru_code": "augru_code",
}  # fmt: skip


class DIENConfig(AuxiliaryConfig):
    """Options of DIEN.

    Attributes:
        evolution: how attention enters the second GRU: ``attention`` pools its states (Two-layer GRU attention),
            ``aigru`` scales its input (eq. 10), ``agru`` replaces its update gate (eq. 11), ``augru`` scales the update
            gate (eq. 12, 13), ``augru_code`` scales the gate that keeps the state (the authors' code).
        attention: ``bilinear`` (eq. 9) or DIN's activation unit, ``din`` (the authors' code).
        gru_size: width of both GRUs; a behaviour's if left out (36 in DIEN: two fields of 18).
    """

    evolution: Evolution = "augru"
    attention: Literal["bilinear", "din"] = "bilinear"
    gru_size: int | None = Field(None, ge=1)


class DIEN(EmbeddingMLP):
    """Interest extractor (eq. 3-8) and interest evolution (eq. 9-13).

    Raises:
        InputError: an auxiliary loss, and GRUs of another width than a behaviour's.
    """

    Config = DIENConfig

    def __init__(self, config: DIENConfig, schema: FeatureSchema) -> None:
        width = len(schema.behavior) * config.embedding_dim
        hidden = config.gru_size or width
        super().__init__(config, schema, interest_width=hidden)
        self.evolution = config.evolution
        self.extractor = GRU(width, hidden)
        attention = ActivationAttention if config.attention == "din" else BilinearAttention
        self.attention = attention(hidden, self.item_width)
        self.evolver = GRU(hidden, hidden, cell=_CELLS[config.evolution])
        self.draws_negatives = config.aux_weight > 0
        if self.draws_negatives:
            if hidden != width:
                raise InputError(
                    f"gru_size: the auxiliary loss compares states with behaviours of width {width}, found {hidden}; leave "
                    "gru_size out or set aux_weight to 0"
                )
            self.auxiliary = AuxiliaryLoss(width, config)

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        if batch.drawn is None or not self.draws_negatives:
            return Interest(self._evolve(self.extractor(history, batch.histories), candidate, batch))
        history, following = fan_out(history)
        states, aux_states = fan_out(self.extractor(history, batch.histories))  # (N, H)
        loss = self.auxiliary(aux_states, following, batch.drawn, batch)
        return Interest(self._evolve(states, candidate, batch), loss)

    def _evolve(self, states: Tensor, candidate: Tensor, batch: Batch) -> Tensor:
        """Shape: ``states (N, H)``, ``candidate (B, item_width)`` -> ``(B, H)``."""
        if self.evolution == "attention":
            weights, evolved = self._weights_and_states(states, candidate, batch)
            return weighted_sum(weights, expand(evolved, batch.pairs), batch.pairs)
        return self.evolver.last(*self._steered(states, candidate, batch)[1])

    def _weights_and_states(self, states: Tensor, candidate: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """The weight of each behaviour of each pair ``(P,)`` and the second GRU's states, ``(P, H)`` where the candidate steers
        them, ``(N, H)`` where it does not (``attention``)."""
        if self.evolution == "attention":
            states = self.evolver(states, batch.histories)
            return self.attention(states, candidate, batch.pairs), states
        weights, taken = self._steered(states, candidate, batch)
        return weights, self.evolver(*taken)

    def _steered(
        self, states: Tensor, candidate: Tensor, batch: Batch
    ) -> tuple[Tensor, tuple[Tensor, Jagged, Tensor | None]]:
        """The weight of each behaviour of each pair ``(P,)``, and what the second GRU takes: inputs, runs and attention."""
        pairs, (states, weighed) = batch.pairs, fan_out(states)
        weights = self.attention(weighed, candidate, pairs)
        if self.evolution == "aigru":
            return weights, (weights.unsqueeze(1) * expand(states, pairs), pairs.shown, None)
        return weights, (states, pairs, weights)

    def attention_weights(self, batch: Batch) -> Tensor:
        """The weight of each behaviour of each pair, ``(P,)``; those of a pair add up to 1."""
        return self.interest_evolution(batch)[0]

    def interest_evolution(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Each pair's weights ``(P,)`` and the states of the evolving interest ``(P, H)``."""
        history, candidate = self.embed(batch)
        weights, states = self._weights_and_states(self.extractor(history, batch.histories), candidate, batch)
        return weights, expand(states, batch.pairs) if self.evolution == "attention" else states
