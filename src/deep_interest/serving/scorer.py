"""Scoring of many candidates for one user: what depends only on the user is computed once."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.batch import Batch, ValueSetsByField
from deep_interest.models.embeddings import NO_VALUE_SETS
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.runtime.host_copies import copy_to_device

Codes = Mapping[str, Tensor]


class Scorer:
    """Predicts the CTRs of candidates for one user.

    Args:
        model: trained model; it is set to evaluation mode.
        schema: schema of its features; that of the model if left out, which models without parameters do not have.
        value_sets: value sets of the multi-hot fields, from the feature store.
        device: device of the model and of the value sets, to which codes are copied once they have been checked; None if the codes
            are there already.

    Raises:
        InputError: the value sets of a multi-hot field are missing.
    """

    def __init__(
        self,
        model: nn.Module,
        schema: FeatureSchema | None = None,
        *,
        value_sets: ValueSetsByField = NO_VALUE_SETS,
        device: torch.device | None = None,
    ) -> None:
        self.model, self.device = model.eval(), device
        known = model.schema if schema is None else schema
        assert isinstance(known, FeatureSchema)
        self.schema = known
        self.value_sets = value_sets
        if missing := sorted(self.schema.multi_hot - set(value_sets)):
            raise InputError(
                f"value_sets: the value sets of the multi-hot {', '.join(missing)} are missing; pass those of the feature store"
            )

    @torch.inference_mode()
    def __call__(
        self, history: Codes, candidates: Codes, *, profile: Codes | None = None, context: Codes | None = None
    ) -> Tensor:
        """Return the predicted CTR of each candidate.

        Args:
            history: ``{field: (T,)}`` int32 codes of the user's behaviours, from oldest to newest.
            candidates: ``{field: (C,)}`` int32 codes of the candidate items.
            profile: ``{field: (1,)}`` int32 codes of the user, for models with profile features.
            context: ``{field: (1,)}`` or ``{field: (C,)}`` int32 codes of the impression, for models with context features.

        Returns:
            Predicted CTRs, float32 ``(C,)``, on the device of the model.

        Raises:
            InputError: a field is missing, fields differ in length, or a code is outside the field's table (values that are
                newer than the model have code 0, "unknown").
        """
        length = _length("history", history, self.schema.behavior)
        size = _length("candidates", candidates, self.schema.item)
        self._check("history", history, self.schema.behavior)
        self._check("candidates", candidates, self.schema.item)
        self._check("profile", profile or {}, self.schema.profile)
        self._check("context", context or {}, self.schema.context)
        device = next(iter(candidates.values())).device
        batch = Batch(
            candidate=dict(candidates), history=dict(history), offsets=copy_to_device(np.array([0, length]), device),
            profile=_expand("profile", profile or {}, self.schema.profile, size),
            context=_expand("context", context or {}, self.schema.context, size),
            labels=torch.zeros(size, device=device), owner=copy_to_device(np.zeros(size, np.int64), device),
            value_sets=self.value_sets,
        )  # fmt: skip
        return self._predict(batch)

    @torch.inference_mode()
    def together(self, requests: Sequence[tuple[Codes, Codes, Codes, Codes]]) -> Tensor:
        """Return the predicted CTRs of the candidates of several users, one after the other.

        Args:
            requests: history, candidates, profile and context of each user, as in a call; their codes are not checked.

        Returns:
            Predicted CTRs, float32, of the candidates of the first user, then of the second …
        """
        histories, candidates, profiles, contexts = zip(*requests, strict=True)
        sizes = [len(next(iter(of.values()))) for of in candidates]
        device = next(iter(candidates[0].values())).device

        def joined(
            parts: Sequence[Codes], fields: Sequence[Field], *, expand: bool = False
        ) -> dict[str, Tensor]:
            return {
                field.name: torch.cat(
                    [
                        of[field.name].expand(size) if expand else of[field.name]
                        for of, size in zip(parts, sizes, strict=True)
                    ]
                )
                for field in fields
            }

        schema = self.schema
        lengths = [len(next(iter(of.values()))) if of else 0 for of in histories]
        batch = Batch(
            candidate=joined(candidates, schema.item), history=joined(histories, schema.behavior),
            offsets=copy_to_device(np.cumsum([0, *lengths]), device), profile=joined(profiles, schema.profile, expand=True),
            context=joined(contexts, schema.context, expand=True), labels=torch.zeros(sum(sizes), device=device),
            owner=copy_to_device(np.repeat(np.arange(len(sizes)), sizes), device), value_sets=self.value_sets,
        )  # fmt: skip
        return self._predict(batch)

    def _predict(self, batch: Batch) -> Tensor:
        if self.device is not None:
            batch = batch.to_device(self.device, self.value_sets)
        return torch.sigmoid(self.model(batch).logits)

    def _check(self, what: str, codes: Codes, fields: tuple[Field, ...]) -> None:
        """Check the codes on the CPU; with an invalid code, a GPU would read memory outside the table."""
        for field in fields:
            if field.name in codes:
                size = len(self.value_sets[field.name].offsets) - 1 if field.pooling else field.codes
                check_codes(codes[field.name].cpu().numpy(), size, f"{what}: {field.name}")


def _length(what: str, codes: Codes, fields: tuple[Field, ...]) -> int:
    """Return the number of codes of every field."""
    lengths = {field.name: len(codes[field.name]) for field in fields if field.name in codes}
    if missing := [field.name for field in fields if field.name not in codes]:
        raise InputError(f"{what}: the model needs {', '.join(missing)}; found {', '.join(codes) or 'none'}")
    if len(set(lengths.values())) > 1:
        raise InputError(f"{what}: all fields must have the same number of codes; found {lengths}")
    return next(iter(lengths.values()))


def _expand(what: str, codes: Codes, fields: tuple[Field, ...], size: int) -> dict[str, Tensor]:
    if not fields:
        return {}
    length = _length(what, codes, fields)
    if length not in (1, size):
        raise InputError(f"{what}: expected one code, or one per candidate ({size}); found {length}")
    return {field.name: codes[field.name].expand(size) for field in fields}
