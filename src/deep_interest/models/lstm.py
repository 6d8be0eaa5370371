"""LSTM over the behaviours, which the authors of DIN tried for sequences (DIN §4.3)."""

import torch
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import EmbeddingMLP, Interest
from deep_interest.models.batch import Batch
from deep_interest.models.configs.lstm import LSTMConfig
from deep_interest.models.length_groups import length_groups


class LSTM(EmbeddingMLP):
    """The user vector is the last state of an LSTM with the width of a behaviour; 0 for an empty history."""

    Config = LSTMConfig

    def __init__(self, config: LSTMConfig, schema: FeatureSchema) -> None:
        super().__init__(config, schema)
        self.lstm = nn.LSTM(self.behavior_width, self.behavior_width, batch_first=True)

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        last = history.new_zeros(batch.histories.size, self.behavior_width)
        for samples, positions, real in length_groups(batch.histories):
            states, _ = self.lstm(
                history[positions]
            )  # (b, T, width); padding at the end does not affect earlier states
            final = states[torch.arange(len(samples), device=samples.device), real.sum(1) - 1]
            last = last.index_copy(0, samples, final)
        return Interest(batch.per_sample(last))
