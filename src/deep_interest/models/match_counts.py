"""Counts of the behaviours that have the candidate's item, category, …: what a boosted tree counts, as inputs of an MLP."""

from collections.abc import Iterator
from functools import reduce
from operator import mul

import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.batch import Batch
from deep_interest.models.embeddings import Table
from deep_interest.models.own_fields import can_scale
from deep_interest.ops.search import newest_matching
from deep_interest.ops.segments import segment_sum

MOST_MATCHES = 128  # newest matching behaviours that are counted
WINDOWS = (
    1,
    5,
    20,
)  # newest behaviours in which matches are counted, next to the whole history, as in `models.boosted`
CHANNELS = 4  # counts with learned weights
_STD = 0.1  # of the initial rows of u, so that the channels differ


class MatchCounts(nn.Module):
    """Counts of matches with the candidate, for each one-hot field f that a behaviour and the candidate share::

        log(1 + Σ_j 1[c_jf = c_f] w_j)        over the behaviours j of the history, c_f ≠ 0

    with the weights ``w_j`` of several counts: 1 (all matches), 1 among the newest 1, 5 or 20 behaviours and 0 otherwise, and, if
    behaviours have fields of their own such as action or time since, four learned ones, ``w_jk = Π_o 2 σ(u_o[c_jo, k])`` over
    the one-hot own fields o with at most 1,024 codes. Embeddings of an item say little about a return to this item, or to its
    category, while the item is rare; a count needs no training. At most the newest 128 matches count.

    Args:
        schema: feature groups; each further sequence has counts of its own.

    Raises:
        InputError: behaviours and candidate share no one-hot field.
    """

    def __init__(self, schema: FeatureSchema) -> None:
        super().__init__()
        self.counted = {name: one_hot_shared(of) for name, of in _sequences(schema)}
        if not self.counted[""]:
            raise InputError(
                "match_counts: behaviours share no one-hot field with the candidate that could match; add item_id or a category to "
                "features.behavior, or set match_counts to false"
            )
        own = {name: [field for field in of.own if can_scale(field)] for name, of in _sequences(schema)}
        self.weighted = {name: [field.name for field in fields] for name, fields in own.items()}
        self.log_weights = nn.ModuleDict(
            {
                field.name: Table(
                    field, CHANNELS, groups=schema.groups_of(field.name), sequences=schema.sequences_with(field.name), std=_STD
                )
                for fields in own.values()
                for field in fields
            }
        )  # fmt: skip
        self.windows: Tensor
        self.register_buffer(
            "windows", torch.tensor([torch.iinfo(torch.int64).max, *WINDOWS]), persistent=False
        )

    @property
    def width(self) -> int:
        """Number of counts."""
        return sum(len(fields) * self._counts(name) for name, fields in self.counted.items())

    def forward(self, batch: Batch) -> Tensor:
        """Return the counts of each sample, ``(B, width)``."""
        counts = [
            self._count(batch.sequences[name] if name else batch, field, self.weighted[name])
            for name, fields in self.counted.items()
            for field in fields
        ]
        return torch.cat(counts, dim=1).log1p()

    def weights(self, rows: list[Tensor], ages: Tensor) -> Tensor:
        """Return the weights of some behaviours in each count.

        Args:
            rows: for each own field, the rows ``(n, 4)`` of its table ``u_o``; none for counts without learned weights.
            ages: ``(n,)`` number of later behaviours.

        Returns:
            ``(n, 4)``, or ``(n, 8)`` with own fields.
        """
        plain = (ages.unsqueeze(1) < self.windows).to(rows[0].dtype if rows else torch.get_default_dtype())
        if not rows:
            return plain
        learned = reduce(mul, [2 * row.sigmoid() for row in rows])
        return torch.cat([plain, learned], dim=1)

    def _count(self, batch: Batch, field: Field, own: list[str]) -> Tensor:
        matches = newest_matching(
            batch.history[field.name], batch.candidate[field.name], batch.pairs, MOST_MATCHES
        )
        rows = [self.log_weights[name](batch.history[name][matches.positions]) for name in own]
        return segment_sum(self.weights(rows, batch.histories.distances[matches.positions]), matches)

    def _counts(self, sequence: str) -> int:
        return 1 + len(WINDOWS) + (CHANNELS if self.weighted[sequence] else 0)


def one_hot_shared(schema: FeatureSchema) -> list[Field]:
    """Return the one-hot fields that a behaviour and the candidate share."""
    return [field for field in schema.shared if field.one_hot]


def _sequences(schema: FeatureSchema) -> Iterator[tuple[str, FeatureSchema]]:
    """Yield the history, under the empty name, and the further sequences."""
    yield "", schema
    for name in schema.sequences:
        yield name, schema.of_sequence(name)
