"""LSTM over the behaviours: the first thing DIN's authors tried for sequences (DIN §4.3)."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import EmbeddingMLP, Interest
from deep_interest.models.batch import Batch
from deep_interest.models.config import DeepConfig
from deep_interest.models.recurrent import final_states


class LSTM(EmbeddingMLP):
    """The user's vector is the last state of an LSTM as wide as a behaviour."""

    Config = DeepConfig

    def __init__(self, config: DeepConfig, schema: FeatureSchema) -> None:
        super().__init__(config, schema)
        self.lstm = nn.LSTM(self.behavior_width, self.behavior_width)

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        if not len(history):
            return Interest(history.new_zeros(batch.size, self.behavior_width))
        rows, sizes = _step_order(batch)
        packed, _ = self.lstm(PackedSequence(history[rows], sizes))
        states = torch.zeros_like(packed.data).index_copy(0, rows, packed.data)
        return Interest(final_states(states, batch))


def _step_order(batch: Batch) -> tuple[Tensor, Tensor]:
    """The order of torch's packed sequences: step after step, the longest history first.

    Returns:
        ``(N,)`` row of each packed position, ``(T,)`` histories that are longer than each step, on the CPU.
    """
    lengths, order = batch.lengths.sort(descending=True, stable=True)
    sizes = torch.bincount(lengths)[1:].flip(0).cumsum(0).flip(0)  # (T,)
    step = torch.repeat_interleave(sizes)  # (N,)
    rank = torch.arange(len(step), device=step.device) - (sizes.cumsum(0) - sizes)[step]
    return batch.offsets[order[rank]] + step, sizes.cpu()
