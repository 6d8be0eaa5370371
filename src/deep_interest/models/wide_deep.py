"""Wide&Deep: BaseModel beside a linear part on crossed features (DIN §6.3)."""

from pydantic import Field as Option
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.base import BaseModel, UnfilteredConfig
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.layers import Pooling, Table, pool
from deep_interest.ops.segments import expand

_ODD = 0x9E3779B97F4A7C1  # multiplicative hashing: an odd constant near 2^60 / golden ratio


class WideDeepConfig(UnfilteredConfig):
    """Options of Wide&Deep.

    Attributes:
        cross_rows: weights of each field's crosses; pairs share them by a hash when there are more pairs.
    """

    cross_rows: int = Option(1 << 20, ge=1)


class CrossProduct(nn.Module):
    """One weight for each pair of a behaviour's and the candidate's code of the same field, pooled over the history.

    Args:
        schema: the feature groups; the one-hot fields that behaviours and candidate share are crossed.
        rows: weights a field.
        pooling: of the behaviours' weights.

    Raises:
        InputError: there is no such field.
    """

    def __init__(self, schema: FeatureSchema, *, rows: int, pooling: Pooling) -> None:
        super().__init__()
        self.pooling: Pooling = pooling
        shared = [
            field
            for field in schema.behavior
            if field.pooling is None and "item" in schema.groups_of(field.name)
        ]
        if not shared:
            raise InputError(
                "features.behavior: Wide&Deep crosses the one-hot fields that behaviours and candidate share, but there is none; "
                "add goods or a category to both"
            )
        self.sizes = {field.name: field.size for field in shared}
        self.weights = nn.ModuleDict(
            {
                name: Table(Field(name=name, size=min(rows, size * size)), 1, groups=(), std=0.0)
                for name, size in self.sizes.items()
            }
        )

    def forward(self, batch: Batch) -> Tensor:
        """Shape: ``-> (B,)``."""
        weights = [
            table(self._pairs(batch, name, table.num_embeddings)) for name, table in self.weights.items()
        ]
        return pool(sum(weights), batch.pairs, self.pooling).squeeze(-1)

    def _pairs(self, batch: Batch, name: str, rows: int) -> Tensor:
        """``(P,)`` rows of the pairs; the pair's own row where there is one for each."""
        size = self.sizes[name]
        seen = expand(batch.history[name], batch.pairs).long()
        pairs = seen * size + batch.candidate[name].long()[batch.pairs.segments]
        return pairs if rows == size * size else (pairs * _ODD >> 20) % rows


class WideDeep(BaseModel):
    """BaseModel's logit plus a linear model of the crossed features (Cheng et al. 2016)."""

    Config = WideDeepConfig

    def __init__(self, config: WideDeepConfig, schema: FeatureSchema) -> None:
        super().__init__(config, schema)
        self.wide = CrossProduct(schema, rows=config.cross_rows, pooling=config.pooling)

    def forward(self, batch: Batch) -> ModelOutput:
        deep = super().forward(batch)
        return ModelOutput(deep.logits + self.wide(batch))
