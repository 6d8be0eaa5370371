"""DIN in plain PyTorch, as an engineer would write it who cares about speed and uses no library but torch.

No padding: behaviours are one jagged array. The activation unit's first layer is folded, so that the candidate's term is
computed once per sample. Embedding gradients are sparse. Nothing here is shared with the package, whose DIN it checks and is
compared with (`compare.py`, peer ``plain``).
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from plain_batches import PlainBatch
from torch import Tensor, nn


class PlainDIN(nn.Module):
    """DIN (Zhou et al. 2018, eq. 3) over item and category, attention net 80-40 with sigmoid, MLP 200-80 with PReLU.

    Args:
        items, categories: rows of the tables.
        dim: embedding width of each.
    """

    def __init__(self, items: int, categories: int, dim: int) -> None:
        super().__init__()
        self.item = nn.Embedding(items, dim, sparse=True)
        self.category = nn.Embedding(categories, dim, sparse=True)
        self.first = nn.Linear(8 * dim, 80)  # of [e, v, e - v, e * v]
        self.rest = nn.Sequential(nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1))
        self.mlp = mlp(4 * dim)
        start_small(self.item, self.category)

    def forward(self, batch: PlainBatch) -> Tensor:
        """The logits, ``(B,)``."""
        rows = [
            self.item(torch.cat([batch.history_item, batch.item])),
            self.category(torch.cat([batch.history_category, batch.category])),
        ]
        history, candidate = torch.cat(rows, 1).split([len(batch.owner), len(batch.item)])
        return self.dense(history, candidate, batch.owner)

    def dense(self, history: Tensor, candidate: Tensor, owner: Tensor) -> Tensor:
        """Shape: ``history (N, 2 dim)``, ``candidate (B, 2 dim)``, ``owner (N,)`` -> ``(B,)``."""
        scores = self.rest(folded(self.first, history, candidate, owner))
        interest = torch.zeros_like(candidate).index_add(0, owner, scores * history)
        return self.mlp(torch.cat([interest, candidate], 1)).squeeze(1)

    def loss(self, batch: PlainBatch) -> Tensor:
        """The mean negative log-likelihood of the labels, a scalar."""
        return F.binary_cross_entropy_with_logits(self(batch), batch.label)


def folded(first: nn.Linear, history: Tensor, candidate: Tensor, owner: Tensor) -> Tensor:
    """``W [e, v, e - v, e * v] + b`` as ``(W_e + W_d) e + W_p (e * v) + [(W_v - W_d) v + b]``: half the products, the bracket
    once per sample. Shape: as of `PlainDIN.dense` -> ``(N, outputs)``."""
    of_e, of_v, of_difference, of_product = first.weight.chunk(4, 1)
    per_sample = F.linear(candidate, of_v - of_difference, first.bias)
    inputs = torch.cat([history, history * candidate.index_select(0, owner)], 1)
    weight = torch.cat([of_e + of_difference, of_product], 1)
    return F.linear(inputs, weight) + per_sample.index_select(0, owner)


def mlp(width: int) -> nn.Sequential:
    """The net over interest and candidate, 200-80-1 with PReLU."""
    return nn.Sequential(
        nn.Linear(width, 200), nn.PReLU(200), nn.Linear(200, 80), nn.PReLU(80), nn.Linear(80, 1)
    )


def start_small(*tables: nn.Embedding) -> None:
    """Initialise embedding tables with a standard deviation of 0.01."""
    for table in tables:
        nn.init.normal_(table.weight, std=0.01)


def optimizers(model: nn.Module, learning_rate: float = 0.001) -> list[torch.optim.Optimizer]:
    """SparseAdam for the tables, fused Adam for the rest."""
    tables = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
    known = {id(table) for table in tables}
    network = [parameter for parameter in model.parameters() if id(parameter) not in known]
    sparse = torch.optim.SparseAdam(tables, lr=learning_rate)
    return [sparse, torch.optim.Adam(network, lr=learning_rate, fused=True)]


def train(model: nn.Module, steppers: list[torch.optim.Optimizer], batches: Iterable[PlainBatch]) -> None:
    """One optimiser step per batch; ``model.loss(batch)`` is minimised."""
    for batch in batches:
        loss = model.loss(batch)
        for stepper in steppers:
            stepper.zero_grad(set_to_none=True)
        loss.backward()
        for stepper in steppers:
            stepper.step()
