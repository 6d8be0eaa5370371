"""Wide&Deep: BaseModel plus a linear model of crossed features (DIN §6.3)."""

from functools import reduce
from operator import add

from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field, Pooling
from deep_interest.models.base import BaseModel
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.configs.wide_deep import WideDeepConfig
from deep_interest.models.embeddings import Table, pool
from deep_interest.ops.segments import expand

_ODD = 0x9E3779B97F4A7C1  # multiplicative hashing: an odd constant near 2^60 / golden ratio


class CrossProduct(nn.Module):
    """One weight for each pair of codes of a behaviour and the candidate in the same field, pooled over the history.

    Args:
        schema: feature groups; the one-hot fields that behaviours and candidate share are crossed.
        rows: maximum number of weights per field.
        pooling: pooling of the weights over the behaviours.

    Raises:
        InputError: behaviours and candidate share no one-hot field.
    """

    def __init__(self, schema: FeatureSchema, *, rows: int, pooling: Pooling) -> None:
        super().__init__()
        self.pooling: Pooling = pooling
        shared = [field for field in schema.shared if field.one_hot]
        if not shared:
            raise InputError(
                "features.behavior: Wide&Deep crosses the one-hot fields that behaviours and candidate share, but there is none; "
                "add item_id or a category to both"
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
        total = reduce(add, [self._weights(batch, name) for name in self.sizes])
        return pool(total, batch.pairs, self.pooling).squeeze(-1)

    def _weights(self, batch: Batch, name: str) -> Tensor:
        table = self.weights[name]
        assert isinstance(table, Table)
        return table(self._pairs(batch, name, table.num_embeddings))

    def _pairs(self, batch: Batch, name: str, rows: int) -> Tensor:
        """Return the row of each pair, ``(P,)``."""
        seen = expand(batch.history[name], batch.pairs).long()
        return cross_rows(seen, batch.candidate[name].long()[batch.pairs.segments], self.sizes[name], rows)


def cross_rows(seen: Tensor, candidates: Tensor, size: int, rows: int) -> Tensor:
    """Return the row of each pair of codes: its own row if the table is large enough, otherwise its hash.

    Args:
        seen, candidates: int64 codes of behaviours and candidates, of shapes that broadcast.
        size: number of codes of the field.
        rows: number of rows of the table.
    """
    pairs = seen * size + candidates
    return pairs if rows == size * size else (pairs * _ODD >> 20) % rows


class WideDeep(BaseModel):
    """BaseModel's logit plus a linear model of the crossed features (Cheng et al. 2016)."""

    Config = WideDeepConfig

    def __init__(self, config: WideDeepConfig, schema: FeatureSchema) -> None:
        super().__init__(config, schema)
        self.wide = CrossProduct(schema, rows=config.cross_rows, pooling=config.pooling)

    def forward(self, batch: Batch) -> ModelOutput:
        features, _ = self.features(batch)
        return ModelOutput(self.logits(features, batch, self.wide(batch)))
