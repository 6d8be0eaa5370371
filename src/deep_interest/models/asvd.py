"""ASVD: the asymmetric factor model (Paterek 2007; Koren 2008, eq. 14): a user is the sum of factors of her behaviours."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import torch
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema, Field, Group
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.configs.asvd import ASVDConfig
from deep_interest.models.embeddings import Embeddings, Table, pool
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.jagged_products import weighted_sum
from deep_interest.ops.segments import segment_repeat, segment_sum

MEAN_STRENGTH = 3.0  # behaviours by which the mean of a history is shrunk
BIASED: tuple[Group, ...] = ("item", "profile", "context")


class ASVD(nn.Module):
    """Biases, and the inner product of the candidate's factor with the sum of the factors of the behaviours.

    With n behaviours j in the history of a sample with candidate i::

        logit = b + b_i + c w̄ + q_i · n^(-1/2) Σ_j ((w_j - w̄) q_j + y_j)
        w_j   = Σ_f w_f(code of j in f) - μ_j        w̄ = Σ_j w_j / (n + 3)

    ``w_j`` is the rating of the paper, centred by the means of item and user: each code of each own field f of a behaviour
    (rating, action, time since) has a learnt weight, and so has the mean ``μ_j`` of the item. Without own fields there is neither
    ``w_j`` nor ``w̄``. ``w_f`` starts at 0 and c at 1, so that ``w_f`` first learns which codes go with positive labels. ``q``, ``y`` and ``μ`` are sums over an item's fields. In the paper a behaviour has another factor
    ``x_j`` than a candidate; a common one generalises better. ``b_i`` is the sum of a weight per code of the candidate, the
    profile and the context. The weight or factor of a dense field is multiplied by its value z, so that ``w_f`` of a dense own field is
    ``w z``. Further sequences are not read.
    """

    Config = ASVDConfig

    def __init__(self, config: ASVDConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.schema, dim, std = schema, config.embedding_dim, config.embedding_std
        items = schema.model_copy(
            update={"behavior": schema.shared, "profile": (), "context": (), "sequences": {}}
        )
        self.factors = Embeddings(items, dim=dim, std=std)
        self.presence = tables_of(schema, "behavior", schema.shared, dim, std)
        self.weights = tables_of(schema, "behavior", schema.own, 1, 0.0)
        self.means = tables_of(schema, "behavior", schema.shared if schema.own else (), 1, 0.0)
        self.of_mean = nn.Parameter(torch.ones(()))
        self.biases = nn.ModuleDict(
            {group: tables_of(schema, group, schema.fields(group), 1, 0.0) for group in BIASED}
        )
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, batch: Batch) -> ModelOutput:
        schema, histories, logits = self.schema, batch.histories, self.bias.expand(batch.size)
        for group in BIASED:
            if fields := schema.fields(group):
                logits = logits + sum_of(self.biases.get_submodule(group), batch, group, fields).squeeze(-1)
        groups = [(batch.candidate, schema.item)] + ([(batch.history, schema.shared)] if schema.own else [])
        vectors = self.factors.lookup_groups(*groups, value_sets=batch.value_sets)
        candidate, *behaviors = (
            _sum_of_fields(found, len(fields)) for found, (_, fields) in zip(vectors, groups, strict=True)
        )
        user = segment_sum(sum_of(self.presence, batch, "behavior", schema.shared), histories)
        if behaviors:
            weights, mean = self._outcomes(batch, histories)
            logits = logits + self.of_mean * batch.per_sample(mean).squeeze(-1)
            user = user + weighted_sum(weights, behaviors[0], histories)
        user = user * histories.lengths.clamp(min=1).to(user.dtype).rsqrt().unsqueeze(1)
        return ModelOutput(logits + (candidate * batch.per_sample(user)).sum(1))

    def _outcomes(self, batch: Batch, histories: Jagged) -> tuple[Tensor, Tensor]:
        """Return ``w_j - w̄`` of each behaviour ``(N,)``, and ``w̄`` of each history ``(H, 1)``."""
        weights = sum_of(self.weights, batch, "behavior", self.schema.own)
        weights = weights - sum_of(self.means, batch, "behavior", self.schema.shared)
        lengths = histories.lengths.unsqueeze(1).to(weights.dtype)
        mean = segment_sum(weights, histories) / (lengths + MEAN_STRENGTH)
        return (weights - segment_repeat(mean, histories)).squeeze(-1), mean


def tables_of(
    schema: FeatureSchema, group: Group, fields: Sequence[Field], dim: int, std: float
) -> nn.ModuleDict:
    """Return a table per field; codes of derived fields are not counted."""
    return nn.ModuleDict(
        {field.name: Table(field, dim, groups=() if field.derived else (group,), std=std) for field in fields}
    )


def sum_of(tables: nn.Module, batch: Batch, group: Group, fields: Sequence[Field]) -> Tensor:
    """Look up the rows of the fields' codes and add them. Shape: ``-> (rows of the group, width of the tables)``."""
    assert isinstance(tables, nn.ModuleDict)
    return reduce(add, [_rows_of(tables, batch, group, field) for field in fields])


def _rows_of(tables: nn.ModuleDict, batch: Batch, group: Group, field: Field) -> Tensor:
    codes, value_sets = batch.values(group, field.name)
    rows = tables[field.name](codes)
    return rows if value_sets is None or field.pooling is None else pool(rows, value_sets, field.pooling)


def _sum_of_fields(vectors: Tensor, fields: int) -> Tensor:
    """Add the vectors of the fields. Shape: ``(n, fields · width) -> (n, width)``."""
    return vectors.unflatten(1, (fields, -1)).sum(1)
