"""NADE: a hidden layer of what a user did with which items predicts the candidate (CF-NADE, Zheng et al. 2016)."""

from functools import reduce
from operator import add

import torch
from torch import Tensor, nn

from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.asvd import BIASED, sum_of, tables_of
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.configs.nade import NADEConfig
from deep_interest.models.embeddings import Table, embedding_tables
from deep_interest.models.stacking import stacked, stacking_of
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.segments import segment_sum

LARGEST_CROSSED = 64  # codes of an own field that has a vector for each item


class NADE(nn.Module):
    """Biases, and the inner product of the candidate's vector with a hidden layer over the behaviours.

    With n behaviours j in the history of a sample with candidate i::

        h     = f(c + n^(-1/2) Σ_j [ w_j + Σ_g u_(j, code of j in own field g) ])
        logit = b + b_i + v_i · h

    ``u`` has a vector for each pair of an item and a code of an own field, so that a rating of 5 and a rating of 1 of the same movie have
    different effects; the paper's weights (eq. 4, ``W^k``, shared by sums over the ratings up to k) are ``w_j + u_(j, k)`` here.
    Own fields with more than 64 codes, multi-hot and dense own fields are not read. ``w`` and ``v`` are sums over an item's fields; if
    behaviours have no item id, pairs are those of their first one-hot field that the candidate shares. ``b_i`` is the sum of a weight per
    code of the candidate, the profile and the context. The paper predicts one of K ratings and does not divide by ``n^(1/2)``; it is trained
    on random parts of a user's ratings (`training.random_histories`). Further sequences are not read.
    """

    Config = NADEConfig

    def __init__(self, config: NADEConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.schema, self.activation = schema, config.hidden_activation
        width, std = config.width, config.embedding_std
        self.behaviors = tables_of(schema, "behavior", schema.shared, width, std)
        self.crossed, self.sizes = crossed_fields(schema)
        self.pairs = nn.ModuleDict(
            {
                name: Table(Field(name=name, size=self.sizes[self.crossed] * size), width, groups=(), std=0.0)
                for name, size in self.sizes.items()
                if name != self.crossed
            }
        )
        self.candidates = tables_of(schema, "item", schema.item, width, std)
        self.offset = nn.Parameter(torch.zeros(width))
        self.dropout = nn.Dropout(config.dropout)
        self.biases = nn.ModuleDict(
            {group: tables_of(schema, group, schema.fields(group), 1, 0.0) for group in BIASED}
        )
        self.bias = nn.Parameter(torch.zeros(()))
        self.stacking = stacking_of(schema, wanted=config.stack_neighbours)

    def forward(self, batch: Batch) -> ModelOutput:
        hidden = self.dropout(self.hidden(batch))
        schema, logits = self.schema, self.bias.expand(batch.size)
        for group in BIASED:
            if fields := schema.fields(group):
                logits = logits + sum_of(self.biases.get_submodule(group), batch, group, fields).squeeze(-1)
        candidate = sum_of(self.candidates, batch, "item", schema.item)
        logits = logits + (candidate * batch.per_sample(hidden)).sum(1)
        return ModelOutput(stacked(self.stacking, logits, batch, training=self.training))

    def hidden(self, batch: Batch) -> Tensor:
        """Return the hidden layer of each history, ``(H, width)``."""
        histories = batch.histories
        total = self._sums_without_gradient(batch) if self._is_pooled_directly(batch) else self._sums(batch)
        mean = total * histories.lengths.clamp(min=1).to(total.dtype).rsqrt().unsqueeze(1)
        return activate(self.activation, mean + self.offset)

    def _sums(self, batch: Batch) -> Tensor:
        """Return the sum of the vectors of each history, ``(H, width)``."""
        behaviors = sum_of(self.behaviors, batch, "behavior", self.schema.shared)
        pairs = [self.pairs[name](self._pairs(batch, name)) for name in self.pairs]
        return segment_sum(reduce(add, pairs, behaviors), batch.histories)

    def _is_pooled_directly(self, batch: Batch) -> bool:
        """Whether no gradient is wanted, and all fields are one-hot with rows on the CPU that are not packed."""
        tables = embedding_tables(self.behaviors) + embedding_tables(self.pairs)
        return (
            not torch.is_grad_enabled()
            and batch.histories.offsets.is_cpu
            and all(field.one_hot for field in self.schema.shared)
            and all(isinstance(table.content, Tensor) for table in tables)
            and not torch.compiler.is_compiling()
        )

    def _sums_without_gradient(self, batch: Batch) -> Tensor:
        """Return ``_sums`` without writing the vectors of the behaviours to memory, which takes longer than to add them."""
        rows = [(self.behaviors[field.name], batch.history[field.name]) for field in self.schema.shared]
        rows += [(self.pairs[name], self._pairs(batch, name)) for name in self.pairs]
        return reduce(add, [pooled(table, codes, batch.histories) for table, codes in rows])

    def _pairs(self, batch: Batch, name: str) -> Tensor:
        """Return the row of the pair of each behaviour's item and its code in an own field, ``(N,)`` int32."""
        items, codes, size = batch.history[self.crossed], batch.history[name], self.sizes[name]
        if codes.is_cpu:
            check_codes(codes.numpy(), size, name)
        return items * size + codes


def crossed_fields(schema: FeatureSchema) -> tuple[str, dict[str, int]]:
    """Return the field that identifies the item of a behaviour, and the number of codes of it and of the own fields to cross with it."""
    shared = {field.name: field.size for field in schema.shared if field.one_hot}
    own = {field.name: field.size for field in schema.own if field.one_hot and field.size <= LARGEST_CROSSED}
    item = ITEM_ID if ITEM_ID in shared else next(iter(shared), "")
    if not item:
        return "", {}
    fitting = {
        name: size for name, size in own.items() if shared[item] * size <= torch.iinfo(torch.int32).max
    }
    return item, {item: shared[item], **fitting}


def pooled(table: nn.Module, codes: Tensor, segments: Jagged) -> Tensor:
    """Look up the rows of one-hot codes on the CPU, and add those of each segment. Shape: ``codes (N,) -> (H, width)``."""
    assert isinstance(table, Table)
    rows = table.rows_of(codes)
    check_codes(rows.numpy(), table.num_embeddings, table.field)
    starts = segments.offsets[:-1].to(rows.dtype)
    return nn.functional.embedding_bag(rows, table.weight, starts, mode="sum")


def activate(name: str, values: Tensor) -> Tensor:
    """Apply the activation of the hidden layer."""
    return torch.relu(values) if name == "relu" else torch.tanh(values)
