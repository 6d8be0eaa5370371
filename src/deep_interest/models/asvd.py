"""ASVD: the asymmetric factor model (Paterek 2007; Koren 2008, eq. 14): a user is the sum of factors of her behaviours."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import torch
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema, Field, Group
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.configs.asvd import ASVDConfig
from deep_interest.models.embeddings import Table, pool
from deep_interest.ops.jagged_products import weighted_sum
from deep_interest.ops.segments import segment_sum


class ASVD(nn.Module):
    """Biases, and the inner product of the candidate's factor with the sum of the factors of the behaviours.

    With n behaviours j in the history of a sample with candidate i::

        logit = b + b_i + q_i · n^(-1/2) Σ_j (w_j x_j + y_j)        w_j = Σ_f w_f(code of j in f)

    ``q_i``, ``x_j`` and ``y_j`` are sums of the factors of the fields of an item. ``w_j`` takes the place of the centred rating
    of the paper: each code of each own field f of a behaviour (rating, action, time since) has a learnt weight. Without own
    fields there is no ``w_j x_j``. ``y_j`` also absorbs the mean by which ratings are centred. ``b_i`` is the sum of a weight per
    code of the candidate, the profile and the context.
    """

    Config = ASVDConfig

    def __init__(self, config: ASVDConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.schema = schema
        dim, std = config.embedding_dim, config.embedding_std
        self.candidate = _tables(schema.item, "item", dim, std)
        self.presence = _tables(schema.shared, "behavior", dim, std)
        self.outcome = _tables(schema.shared, "behavior", dim, std) if schema.own else nn.ModuleDict()
        self.weights = nn.ModuleDict(
            {f.name: Table(f, 1, groups=schema.groups_of(f.name), std=config.outcome_std) for f in schema.own}
        )
        self.biases = nn.ModuleDict(
            {group: _tables(schema.fields(group), group, 1, 0.0) for group in _BIASED}
        )
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, batch: Batch) -> ModelOutput:
        schema, logits = self.schema, self.bias.expand(batch.size)
        for group in _BIASED:
            if fields := schema.fields(group):
                logits = logits + _sum_of(self.biases[group], batch, group, fields).squeeze(-1)
        candidate = _sum_of(self.candidate, batch, "item", schema.item)
        return ModelOutput(logits + (candidate * batch.per_sample(self.user(batch))).sum(1))

    def user(self, batch: Batch) -> Tensor:
        """Return the factor of each history, ``(H, embedding_dim)``; 0 for an empty one."""
        schema, histories = self.schema, batch.histories
        total = segment_sum(_sum_of(self.presence, batch, "behavior", schema.shared), histories)
        if schema.own:
            weights = _sum_of(self.weights, batch, "behavior", schema.own).squeeze(-1)
            outcomes = _sum_of(self.outcome, batch, "behavior", schema.shared)
            total = total + weighted_sum(weights, outcomes, histories)
        return total * histories.lengths.clamp(min=1).to(total.dtype).rsqrt().unsqueeze(1)


_BIASED: tuple[Group, ...] = ("item", "profile", "context")


def _tables(fields: Sequence[Field], group: Group, dim: int, std: float) -> nn.ModuleDict:
    return nn.ModuleDict(
        {field.name: Table(field, dim, groups=() if field.derived else (group,), std=std) for field in fields}
    )


def _sum_of(tables: nn.Module, batch: Batch, group: Group, fields: Sequence[Field]) -> Tensor:
    """Look up the rows of the fields' codes and add them. Shape: ``-> (rows of the group, width of the tables)``."""
    assert isinstance(tables, nn.ModuleDict)
    return reduce(add, [_rows_of(tables, batch, group, field) for field in fields])


def _rows_of(tables: nn.ModuleDict, batch: Batch, group: Group, field: Field) -> Tensor:
    codes, value_sets = batch.values(group, field.name)
    rows = tables[field.name](codes)
    return rows if value_sets is None or field.pooling is None else pool(rows, value_sets, field.pooling)
