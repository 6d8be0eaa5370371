"""ASVD: the asymmetric factor model (Paterek 2007; Koren 2008, eq. 14): a user is the sum of factors of her behaviours."""

import torch
from pydantic import Field as Option
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema, Field, Group
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.config import ModelConfig
from deep_interest.models.embeddings import Table, pool
from deep_interest.ops.jagged_products import weighted_sum
from deep_interest.ops.segments import segment_sum


class ASVDConfig(ModelConfig):
    """Options of ASVD.

    Attributes:
        embedding_dim: width of every factor.
        embedding_std: standard deviation of the initial factors.
        outcome_std: standard deviation of the initial weights of the codes of a behaviour's own fields.
    """

    embedding_dim: int = Option(32, ge=1)
    embedding_std: float = Option(0.1, gt=0)
    outcome_std: float = Option(0.5, gt=0)


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
        names = {field.name for field in schema.item}
        self.shared = [field for field in schema.behavior if field.name in names]
        self.own = [field for field in schema.behavior if field.name not in names]
        dim, std = config.embedding_dim, config.embedding_std
        self.candidate = _tables(schema.item, "item", dim, std)
        self.presence = _tables(self.shared, "behavior", dim, std)
        self.outcome = _tables(self.shared, "behavior", dim, std) if self.own else nn.ModuleDict()
        self.weights = _tables(self.own, "behavior", 1, config.outcome_std)
        self.biases = nn.ModuleDict(
            {group: _tables(schema.fields(group), group, 1, 0.0) for group in _BIASED}
        )
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, batch: Batch) -> ModelOutput:
        logits = self.bias.expand(batch.size)
        for group in _BIASED:
            for field in self.schema.fields(group):
                logits = logits + _look_up(self.biases[group], batch, group, field).squeeze(-1)
        candidate = sum(_look_up(self.candidate, batch, "item", field) for field in self.schema.item)
        return ModelOutput(logits + (candidate * batch.per_sample(self.user(batch))).sum(1))

    def user(self, batch: Batch) -> Tensor:
        """Return the factor of each history, ``(H, embedding_dim)``; 0 for an empty one."""
        histories = batch.histories
        total = segment_sum(self._sum(self.presence, batch, self.shared), histories)
        if self.own:
            weights = self._sum(self.weights, batch, self.own).squeeze(-1)
            total = total + weighted_sum(weights, self._sum(self.outcome, batch, self.shared), histories)
        return total * histories.lengths.clamp(min=1).to(total.dtype).rsqrt().unsqueeze(1)

    def _sum(self, tables: nn.ModuleDict, batch: Batch, fields: list[Field]) -> Tensor:
        return sum(_look_up(tables, batch, "behavior", field) for field in fields)


_BIASED: tuple[Group, ...] = ("item", "profile", "context")


def _tables(fields, group: Group, dim: int, std: float) -> nn.ModuleDict:
    return nn.ModuleDict({field.name: Table(field, dim, groups=(group,), std=std) for field in fields})


def _look_up(tables: nn.ModuleDict, batch: Batch, group: Group, field: Field) -> Tensor:
    codes, value_sets = batch.values(group, field.name)
    rows = tables[field.name](codes)
    return rows if value_sets is None or field.pooling is None else pool(rows, value_sets, field.pooling)
