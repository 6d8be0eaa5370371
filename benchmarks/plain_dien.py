"""DIEN in plain PyTorch, as an engineer would write it who cares about speed and uses no library but torch.

Behaviours are in packed order (step by step, longest histories first), so that `nn.GRU` takes them as they are and the AUGRU,
which torch does not have, is a loop over slices that shrink: no padding, no reordering. Input products of all steps are one
matrix product. Attention and auxiliary nets as in the authors' code, both with folded first layers.
"""

import torch
import torch.nn.functional as F
from plain_batches import PlainBatch
from plain_din import folded, mlp, start_small
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence


class PlainDIEN(nn.Module):
    """DIEN (Zhou et al. 2019) over item and category: GRU, attention net 80-40, AUGRU, auxiliary net 100-50-1, MLP 200-80.

    Args:
        items, categories: rows of the tables.
        dim: embedding width of each.
    """

    def __init__(self, items: int, categories: int, dim: int) -> None:
        super().__init__()
        width = 2 * dim
        self.item = nn.Embedding(items, dim, sparse=True)
        self.category = nn.Embedding(categories, dim, sparse=True)
        self.extractor = nn.GRU(width, width)
        self.query = nn.Sequential(nn.Linear(width, width), nn.PReLU(width))
        self.first = nn.Linear(4 * width, 80)  # of [h, q, h - q, h * q]
        self.rest = nn.Sequential(nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1))
        self.augru = PlainAUGRU(width)
        self.aux_first = nn.Linear(2 * width, 100)  # of [h, e]
        self.aux_rest = nn.Sequential(nn.Sigmoid(), nn.Linear(100, 50), nn.Sigmoid(), nn.Linear(50, 1))
        self.mlp = mlp(2 * width)
        start_small(self.item, self.category)

    def loss(self, batch: PlainBatch) -> Tensor:
        """Target loss and auxiliary loss (α = 1), a scalar."""
        assert batch.batch_sizes is not None
        sizes, n = batch.batch_sizes, len(batch.owner)
        rows = [
            self.item(torch.cat([batch.history_item, batch.negative_item, batch.item])),
            self.category(torch.cat([batch.history_category, batch.negative_category, batch.category])),
        ]
        history, negative, candidate = torch.cat(rows, 1).split([n, n, len(batch.item)])
        states = self.extractor(PackedSequence(history, sizes))[0].data
        attention = self.attention(states, self.query(candidate), batch.owner)
        interest = self.augru(states, attention, sizes.tolist())
        logits = self.mlp(torch.cat([interest, candidate], 1)).squeeze(1)
        target = F.binary_cross_entropy_with_logits(logits, batch.label)
        return target + self.auxiliary(states, history, negative, sizes)

    def attention(self, states: Tensor, query: Tensor, owner: Tensor) -> Tensor:
        """The softmax of the scores within each sample. Shape: ``states (N, width)``, ``query (B, width)`` -> ``(N, 1)``."""
        scores = self.rest(folded(self.first, states, query, owner)).squeeze(1)
        fixed = scores.detach()
        top = fixed.new_zeros(len(query)).scatter_reduce(0, owner, fixed, "amax", include_self=False)
        shares = (scores - top.index_select(0, owner)).exp()
        sums = shares.new_zeros(len(query)).index_add(0, owner, shares)
        return (shares / sums.index_select(0, owner)).unsqueeze(1)

    def auxiliary(self, states: Tensor, history: Tensor, negative: Tensor, sizes: Tensor) -> Tensor:
        """The mean over positions with a next behaviour of ``-log σ(s(h_t, e_t+1)) - log(1 - σ(s(h_t, ê_t+1)))``."""
        following = torch.arange(int(sizes[0]), len(states))
        before = following - torch.repeat_interleave(sizes[:-1], sizes[1:])
        of_state, of_item = self.aux_first.weight.chunk(2, 1)
        shared = F.linear(states, of_state, self.aux_first.bias).index_select(0, before)
        items = torch.cat([history[int(sizes[0]) :], negative[int(sizes[0]) :]])
        clicked, sampled = self.aux_rest(F.linear(items, of_item) + shared.repeat(2, 1)).squeeze(1).chunk(2)
        return (F.softplus(-clicked) + F.softplus(sampled)).mean()


class PlainAUGRU(nn.Module):
    """GRU with attentional update gate (DIEN eq. 12, 13) over sequences in packed order.

    Args:
        width: of inputs and states.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(width, 3 * width)  # reset, update, candidate state
        self.states = nn.Linear(width, 3 * width, bias=False)
        for gate in (*self.inputs.weight.data.chunk(3), *self.states.weight.data.chunk(3)):
            nn.init.xavier_uniform_(gate)
        self.step = augru_step

    def forward(self, inputs: Tensor, attention: Tensor, sizes: list[int]) -> Tensor:
        """The last states. Shape: ``inputs (N, width)``, ``attention (N, 1)`` -> ``(B, width)``."""
        gates, steps = self.inputs(inputs).split(sizes), attention.split(sizes)
        state, ended = inputs.new_zeros(sizes[0], inputs.shape[1]), []
        for gate, share in zip(gates, steps, strict=True):
            if len(gate) < len(state):
                ended.append(state[len(gate) :])
            state = state[: len(gate)]
            state = self.step(gate, self.states(state), share, state)
        return torch.cat([state, *reversed(ended)])


def augru_step(gates: Tensor, recalled: Tensor, attention: Tensor, state: Tensor) -> Tensor:
    """One step. Shape: ``gates``, ``recalled (b, 3 width)``, ``attention (b, 1)``, ``state (b, width)`` -> ``(b, width)``."""
    width = state.shape[1]
    reset, update = torch.sigmoid(gates[:, : 2 * width] + recalled[:, : 2 * width]).chunk(2, 1)
    candidate = torch.tanh(gates[:, 2 * width :] + reset * recalled[:, 2 * width :])
    return torch.lerp(state, candidate, attention * update)
