"""The fields that only a behaviour has, such as its rating, its action, or the time since: how they enter its vector."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema, Field, Pooling
from deep_interest.models.batch import Batch
from deep_interest.models.config import OwnFieldsOption
from deep_interest.models.embeddings import Table, mean_by_length, pool
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.modulation import modulate, modulated_sum

LARGEST_MODULATING = (
    1024  # codes of a field that scales; one with more has too few behaviours per code to learn a vector each
)


class OwnFields(nn.Module):
    """The vector of a behaviour from its shared fields ``e_j`` and its own fields.

    ``scale`` multiplies and shifts the shared fields, ``e_j ∘ (1 + Σ_f s_f) + Σ_f t_f``, where ``s_f`` and ``t_f`` are rows of a
    table of the own field f (feature-wise modulation, Perez et al. 2018). All rows start at 0. A sum or an attention over
    behaviours then depends on which behaviour had which outcome, as in the asymmetric factor model, where a behaviour
    counts in proportion to its rating. ``concat`` appends the embeddings of the own fields, as DIN concatenates the fields of a
    behaviour. ``both`` does both. Multi-hot fields, dense fields and fields with more than 1,024 codes do not scale.

    Args:
        schema: feature groups, with own fields.
        shared_width: width of ``e_j``.
        option: see above.
    """

    accumulator: GradientAccumulator | None = None  # during a training step, see `Optimizer.accumulate`

    def __init__(self, schema: FeatureSchema, shared_width: int, option: OwnFieldsOption) -> None:
        super().__init__()
        names = [] if option == "concat" else [field.name for field in schema.own if can_scale(field)]
        self.scales = nn.ModuleDict(
            {
                name: Table(
                    Field(name=name, size=schema.tables[name]),
                    2 * shared_width,
                    groups=schema.groups_of(name),
                    std=0.0,
                )
                for name in names
            }
        )

    def forward(self, shared: Tensor, appended: Tensor | None, batch: Batch) -> Tensor:
        """Return the vectors of the behaviours.

        Args:
            shared: ``(N, shared_width)`` vectors of the shared fields.
            appended: ``(N, width)`` embeddings of the own fields; None if they are not concatenated.
            batch: the batch, with the codes of the own fields.
        """
        if not self.scales:
            return shared if appended is None else torch.cat([shared, appended], dim=1)
        tables, codes = self._modulation(batch)
        return modulate(
            shared, tables, codes, names=list(self.scales), appended=appended, accumulator=self.accumulator
        )

    def pooled(
        self,
        shared: Tensor,
        appended: Tensor | None,
        batch: Batch,
        pooling: Pooling,
        *,
        embeddings: Sequence[Tensor] = (),
    ) -> Tensor:
        """Return the sum or mean of the vectors of the behaviours of each history, ``(H, width)``; arguments as in `forward`.

        Instead of ``appended``, the embeddings of all fields that scale can be given as tables, ``(R_f, D)`` each.
        """
        histories = batch.histories
        if not self.scales:
            parts = [part for part in (shared, appended) if part is not None]
            return torch.cat([pool(part, histories, pooling) for part in parts], dim=1)
        tables, codes = self._modulation(batch)
        sums = modulated_sum(
            shared, tables, codes, histories,
            names=list(self.scales), appended=appended, embeddings=embeddings, accumulator=self.accumulator,
        )  # fmt: skip
        return sums if pooling == "sum" else mean_by_length(sums, histories.lengths)

    def _modulation(self, batch: Batch) -> tuple[list[Tensor], list[Tensor]]:
        """Return the tables and the codes of the fields that scale."""
        tables: list[Tensor] = [
            self.scales.get_submodule(name).get_parameter("weight") for name in self.scales
        ]
        return tables, [batch.history[name] for name in self.scales]


def can_scale(field: Field) -> bool:
    """Return whether a field can scale the vectors of behaviours: it is one-hot and has few codes."""
    return field.one_hot and field.size <= LARGEST_MODULATING
