"""Which behaviours a prediction depends on: attention weights, interest states and leave-one-out effects."""

from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import NEIGHBOURS
from deep_interest.models.batch import Batch
from deep_interest.ops.jagged import SharedSegments
from deep_interest.training.data import SampleSet


@dataclass(frozen=True)
class BehaviorAttention:
    """Attention weights of the behaviours of a batch; arrays ``(P,)`` ordered by sample, then from oldest to newest.

    Attributes:
        sample: index of the sample in the batch.
        steps_back: number of later behaviours of the sample; 0 for the newest.
        weight: attention weight.
        behavior: ``{field: codes}`` of the behaviour.
        candidate: ``{field: codes}`` of the sample's candidate.
    """

    sample: np.ndarray
    steps_back: np.ndarray
    weight: np.ndarray
    behavior: dict[str, np.ndarray]
    candidate: dict[str, np.ndarray]


class AttentionModel(Protocol):
    """A model that gives each behaviour one attention weight per candidate, such as DIN and DIEN."""

    def eval(self) -> Self: ...

    def attention_weights(self, batch: Batch) -> Tensor: ...


class EvolutionModel(Protocol):
    """A model with an interest evolution layer, such as DIEN."""

    def eval(self) -> Self: ...

    def interest_evolution(self, batch: Batch) -> tuple[Tensor, Tensor]: ...


def has_attention(model: object) -> TypeGuard[AttentionModel]:
    """Return whether a model gives each behaviour one attention weight per candidate."""
    return hasattr(model, "attention_weights")


@torch.no_grad()
def behavior_attention(model: AttentionModel, batch: Batch) -> BehaviorAttention:
    """Return the attention weight of every behaviour for its sample's candidate.

    Args:
        model: model for which `has_attention` is true.
        batch: samples; a history shared by several samples is listed for each.
    """
    return _by_behavior(batch, model.eval().attention_weights(batch))


@torch.no_grad()
def interest_states(model: EvolutionModel, batch: Batch) -> tuple[BehaviorAttention, np.ndarray]:
    """Return attention weights and the states of the interest evolution layer (DIEN, Interest Evolving Layer).

    Args:
        model: DIEN or a relative of it.
        batch: samples.

    Returns:
        The attention weights, and the state after each behaviour, ``(P, H)``.
    """
    weights, states = model.eval().interest_evolution(batch)
    return _by_behavior(batch, weights), states.cpu().numpy()


def _by_behavior(batch: Batch, weights: Tensor) -> BehaviorAttention:
    pairs = batch.pairs
    rows = pairs.positions if isinstance(pairs, SharedSegments) else None
    take = (lambda codes: codes) if rows is None else (lambda codes: codes[rows])
    return BehaviorAttention(
        sample=_array(pairs.segments), steps_back=_array(pairs.distances), weight=_array(weights),
        behavior={name: _array(take(codes)) for name, codes in batch.history.items()},
        candidate={name: _array(codes[pairs.segments]) for name, codes in batch.candidate.items()},
    )  # fmt: skip


@torch.no_grad()
def predict_ctr(model: nn.Module, batch: Batch) -> np.ndarray:
    """Return the predicted CTR of a batch, ``(B,)``."""
    return torch.sigmoid(model.eval()(batch).logits).cpu().numpy()


@torch.no_grad()
def leave_one_out_effects(model: nn.Module, batch: Batch) -> tuple[float, np.ndarray]:
    """Return how much the log-odds of one sample drop when each of its behaviours is left out.

    This works for any model that uses the history, with or without attention. The effects do not add up: of two similar
    behaviours each has a small effect, because the other remains in the history.

    Args:
        model: trained model.
        batch: batch of one sample.

    Returns:
        The log-odds of the sample, and the effect of each behaviour, ``(T,)``, from oldest to newest.
    """
    assert batch.size == 1, f"one sample expected, found {batch.size}"
    model.eval()
    length = int(batch.offsets[-1])
    log_odds = float(model(batch).logits)
    if not length:
        return log_odds, np.zeros(0)
    keep = ~torch.eye(length, dtype=torch.bool)
    kept = torch.arange(length).expand(length, length)[
        keep
    ]  # shortened history j has all behaviours except j
    shortened = replace(
        batch,
        history={name: codes[kept] for name, codes in batch.history.items()},
        offsets=torch.arange(length + 1) * (length - 1),
        owner=None,
        candidate=_repeated(batch.candidate, length),
        profile=_repeated(batch.profile, length),
        context=_repeated(batch.context, length),
        labels=batch.labels.expand(length),
    )
    return log_odds, log_odds - model(shortened).logits.double().cpu().numpy()


def single_sample_batch(
    samples: SampleSet, user: int, history_end: int, item: int, *, context: dict[str, int] | None = None, segment: int | None = None
) -> Batch:  # fmt: skip
    """Return a batch of one sample, which need not be one of the existing samples.

    Args:
        samples: samples whose log, feature codes and maximum history length are used.
        user: code of the user.
        history_end: number of behaviours of the user, or of the segment, that belong to the history.
        item: code of the candidate item.
        context: codes of the context fields by name; omitted fields are unknown.
        segment: segment of the log that has the history; that of the user if None.

    Raises:
        InputError: the code of the user, the segment or the item is out of range.
    """
    if samples.store.sequences:
        raise InputError(
            "explain: a model with further sequences of behaviours (features.sequences) cannot be explained yet"
        )
    if any(field.name == NEIGHBOURS for field in samples.store.schema.context):
        raise InputError(
            "explain: a model with scores of neighbours (features.neighbours) cannot be explained yet"
        )
    segments, items = len(samples.store.offsets) - 1, min(map(len, samples.store.items.values()))
    if segment is None and not 0 < user < segments:
        raise InputError(f"user: code {user} is outside 1 to {segments - 1}, the codes of the log's users")
    if segment is not None and not 0 <= segment < segments:
        raise InputError(
            f"segment: {segment} is outside 0 to {segments - 1}, the segments of the log's histories"
        )
    if not 0 <= item < items:
        raise InputError(
            f"item: code {item} is outside 0 to {items - 1}, the codes of the catalogue (0 is the unknown item)"
        )
    fields = {field.name: (context or {}).get(field.name, 0) for field in samples.store.schema.context}
    single = SampleSet(
        samples.store, samples.max_len, _tensor(user), _tensor(item), _tensor(history_end), torch.zeros(1),
        {name: _tensor(code) for name, code in fields.items()},
        given_segment=None if segment is None else _tensor(segment), time=_time_after(samples, user if segment is None else segment, history_end),
    )  # fmt: skip
    return single.batch(torch.zeros(1, dtype=torch.int64))


def _time_after(samples: SampleSet, segment: int, history_end: int) -> Tensor | None:
    """Return the time of the behaviour after the history; that of the log's newest behaviour if there is none."""
    store = samples.store
    position = int(store.offsets[segment]) + history_end
    if store.times is None or position >= int(store.offsets[segment + 1]):
        return store.now(1)
    return store.times[position : position + 1]


def _repeated(codes: dict[str, Tensor], times: int) -> dict[str, Tensor]:
    return {name: values.expand(times) for name, values in codes.items()}


def _tensor(code: int) -> Tensor:
    return torch.tensor([code], dtype=torch.int32)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()
