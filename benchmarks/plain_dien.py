"""DIEN in plain PyTorch, as an engineer would write it who cares about speed and uses no library but torch.

Behaviours are in packed order (step by step, longest histories first), so that both recurrences are loops over slices that
shrink: no padding, no reordering, one matrix product for the inputs of all steps. `torch.nn.GRU` takes a packed sequence, too,
but its backward pass on a CPU fills a gradient of all steps with zeros at every step, which was most of its time. Attention and
auxiliary nets are those of the authors' code, both with folded first layers.
"""

import torch
import torch.nn.functional as F
from plain_batches import PlainBatch
from plain_din import folded, mlp, start_small
from torch import Tensor, nn


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
        self.extractor = PlainGRU(width)
        self.query = nn.Sequential(nn.Linear(width, width), nn.PReLU(width))
        self.first = nn.Linear(4 * width, 80)  # of [h, q, h - q, h * q]
        self.rest = nn.Sequential(nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1))
        self.augru = PlainGRU(width)
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
        steps = sizes.tolist()
        states = torch.cat(self.extractor(history, steps)[0])
        attention = self.attention(states, self.query(candidate), batch.owner)
        interest = self.augru(states, steps, attention)[1]
        logits = self.mlp(torch.cat([interest, candidate], 1)).squeeze(1)
        target = F.binary_cross_entropy_with_logits(logits, batch.label)
        before = torch.arange(n - steps[0]) + (steps[0] - torch.repeat_interleave(sizes[:-1], sizes[1:]))
        items = torch.cat([history[steps[0] :], negative[steps[0] :]])
        return target + self.auxiliary(states, items, before)

    def attention(self, states: Tensor, query: Tensor, owner: Tensor) -> Tensor:
        """The softmax of the scores within each sample. Shape: ``states (N, width)``, ``query (B, width)`` -> ``(N, 1)``."""
        scores = self.rest(folded(self.first, states, query, owner)).squeeze(1)
        fixed = scores.detach()
        top = fixed.new_zeros(len(query)).scatter_reduce(0, owner, fixed, "amax", include_self=False)
        shares = (scores - top.index_select(0, owner)).exp()
        sums = shares.new_zeros(len(query)).index_add(0, owner, shares)
        return (shares / sums.index_select(0, owner)).unsqueeze(1)

    def auxiliary(self, states: Tensor, items: Tensor, before: Tensor) -> Tensor:
        """The mean over positions with a next behaviour of ``-log σ(s(h_t, e_t+1)) - log(1 - σ(s(h_t, ê_t+1)))``.

        Shape: ``states (N, width)``, ``items (2 M, width)`` of which the first half is clicked, ``before (M,)`` -> scalar.
        """
        of_state, of_item = self.aux_first.weight.chunk(2, 1)
        shared = F.linear(states, of_state, self.aux_first.bias).index_select(0, before)
        scores = self.aux_rest(F.linear(items, of_item) + shared.repeat(2, 1)).squeeze(1)
        clicked, sampled = scores.chunk(2)
        return (F.softplus(-clicked) + F.softplus(sampled)).mean()


class PlainGRU(nn.Module):
    """GRU, or with attention AUGRU (DIEN eq. 3 to 6, 12, 13), over sequences in packed order.

    Args:
        width: of inputs and states.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(width, 3 * width)  # reset, update, candidate state
        self.states = nn.Linear(width, 3 * width, bias=False)
        for gate in (*self.inputs.weight.data.chunk(3), *self.states.weight.data.chunk(3)):
            nn.init.xavier_uniform_(gate)
        self.step = gru_step

    def forward(
        self, inputs: Tensor, sizes: list[int], attention: Tensor | None = None
    ) -> tuple[list[Tensor], Tensor]:
        """The states of every step, and each sample's last one.

        Shape: ``inputs (N, width)``, ``attention (N, 1)`` -> ``sizes`` times ``(b, width)``, and ``(B, width)``.
        """
        shares = [None] * len(sizes) if attention is None else attention.split(sizes)
        state, states, ended = inputs.new_zeros(sizes[0], inputs.shape[1]), [], []
        for gates, share in zip(self.inputs(inputs).split(sizes), shares, strict=True):
            if len(gates) < len(state):
                state, last = state.split([len(gates), len(state) - len(gates)])
                ended.append(last)
            state = self.step(gates, self.states(state), share, state)
            states.append(state)
        return states, torch.cat([state, *reversed(ended)])


def gru_step(gates: Tensor, recalled: Tensor, attention: Tensor | None, state: Tensor) -> Tensor:
    """One step. Shape: ``gates``, ``recalled (b, 3 width)``, ``attention (b, 1)``, ``state (b, width)`` -> ``(b, width)``."""
    parts = [2 * state.shape[1], state.shape[1]]
    (soft, new), (soft_recalled, new_recalled) = gates.split(parts, 1), recalled.split(parts, 1)
    reset, update = torch.sigmoid(soft + soft_recalled).chunk(2, 1)
    share = update if attention is None else attention * update
    return torch.lerp(state, torch.tanh(new + reset * new_recalled), share)
