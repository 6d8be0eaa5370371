"""Scoring many candidates for one user: what depends on the user alone is computed once."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import Field
from deep_interest.models.batch import Batch, Cells
from deep_interest.models.layers import NO_CELLS
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.runtime.host_copies import copy_to_device

Codes = Mapping[str, Tensor]


class Scorer:
    """Predicted CTRs of one user's candidates.

    Args:
        model: a trained model; it is set to evaluation.
        cells: of the multi-hot fields, as the feature store has them.

    Raises:
        InputError: a multi-hot field has no cells.
    """

    def __init__(self, model: nn.Module, *, cells: Cells = NO_CELLS) -> None:
        self.model = model.eval()
        self.schema = model.schema
        self.cells = cells
        if missing := sorted(self.schema.multi_hot - set(cells)):
            raise InputError(
                f"cells: the model needs those of the multi-hot {', '.join(missing)}; give the feature store's"
            )

    @torch.inference_mode()
    def __call__(
        self, history: Codes, candidates: Codes, *, profile: Codes | None = None, context: Codes | None = None
    ) -> Tensor:
        """The CTR of each candidate.

        Args:
            history: ``{field: (T,)}`` int32 codes of the user's behaviours, oldest first.
            candidates: ``{field: (C,)}`` int32 codes of the items.
            profile: ``{field: (1,)}`` codes of the user, for models that have profile features.
            context: ``{field: (1,)}`` or ``(C,)`` codes of the impression, for models that have context features.

        Returns:
            ``(C,)`` float32.

        Raises:
            InputError: a field is missing or too short, or a code is outside the field's table (a value that is newer
                than the model has code 0, "unknown").
        """
        length = _length("history", history, self.schema.behavior)
        size = _length("candidates", candidates, self.schema.item)
        self._check("history", history, self.schema.behavior)
        self._check("candidates", candidates, self.schema.item)
        self._check("profile", profile or {}, self.schema.profile)
        self._check("context", context or {}, self.schema.context)
        device = next(self.model.parameters()).device
        batch = Batch(
            candidate=dict(candidates), history=dict(history), offsets=copy_to_device(np.array([0, length]), device),
            profile=_spread("profile", profile or {}, self.schema.profile, size),
            context=_spread("context", context or {}, self.schema.context, size),
            labels=torch.zeros(size, device=device), owner=copy_to_device(np.zeros(size, np.int64), device),
            cells=self.cells,
        )  # fmt: skip
        return torch.sigmoid(self.model(batch).logits)

    def _check(self, what: str, codes: Codes, fields: tuple[Field, ...]) -> None:
        """Check the codes on the host: a GPU would read memory that is not the table's."""
        for field in fields:
            if field.name in codes:
                size = len(self.cells[field.name].offsets) - 1 if field.pooling else field.size
                check_codes(codes[field.name].cpu().numpy(), size, f"{what}: {field.name}")


def _length(what: str, codes: Codes, fields: tuple[Field, ...]) -> int:
    """How many codes each field has."""
    lengths = {field.name: len(codes[field.name]) for field in fields if field.name in codes}
    if missing := [field.name for field in fields if field.name not in codes]:
        raise InputError(
            f"{what}: the model needs the field {', '.join(missing)}, found {', '.join(codes) or 'none'}"
        )
    if len(set(lengths.values())) > 1:
        raise InputError(f"{what}: expected as many codes in every field, found {lengths}")
    return next(iter(lengths.values()))


def _spread(what: str, codes: Codes, fields: tuple[Field, ...], size: int) -> dict[str, Tensor]:
    if not fields:
        return {}
    length = _length(what, codes, fields)
    if length not in (1, size):
        raise InputError(
            f"{what}: expected one code or one for each of the {size} candidates, found {length}"
        )
    return {field.name: codes[field.name].expand(size) for field in fields}
