"""What a prediction rests on: attention weights, evolving interests, and what each behaviour adds to the prediction."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.models.batch import Batch
from deep_interest.training.data import SampleSet


@dataclass(frozen=True)
class BehaviorAttention:
    """The behaviours of some samples, each with its sample; all arrays ``(P,)``, sample after sample, oldest first.

    Attributes:
        sample: number of the sample.
        back: how many behaviours of the sample came after it; 0 for the last.
        weight: attention weight.
        fields: ``{field: codes}`` of the behaviour.
        candidate: ``{field: codes}`` of its sample's candidate.
    """

    sample: np.ndarray
    back: np.ndarray
    weight: np.ndarray
    fields: dict[str, np.ndarray]
    candidate: dict[str, np.ndarray]


def has_attention(model: nn.Module) -> bool:
    """Whether a model weighs behaviours by the candidate in one weight each."""
    return hasattr(model, "attention_weights")


@torch.no_grad()
def behavior_attention(model: nn.Module, batch: Batch) -> BehaviorAttention:
    """The attention weight of every behaviour for its sample's candidate.

    Args:
        model: one that `has_attention`.
        batch: samples; those that share a history each have it.
    """
    return _pairs(batch, model.eval().attention_weights(batch))


@torch.no_grad()
def interest_states(model: nn.Module, batch: Batch) -> tuple[BehaviorAttention, np.ndarray]:
    """Attention and the states of the evolving interest (DIEN §Interest Evolution), ``(P, H)``."""
    weights, states = model.eval().interest_evolution(batch)
    return _pairs(batch, weights), states.cpu().numpy()


def _pairs(batch: Batch, weights: Tensor) -> BehaviorAttention:
    pairs = batch.pairs
    rows = getattr(pairs, "places", None)
    take = (lambda codes: codes) if rows is None else (lambda codes: codes[rows])
    return BehaviorAttention(
        sample=_array(pairs.segments), back=_array(pairs.distances), weight=_array(weights),
        fields={name: _array(take(codes)) for name, codes in batch.history.items()},
        candidate={name: _array(codes[pairs.segments]) for name, codes in batch.candidate.items()},
    )  # fmt: skip


@torch.no_grad()
def predict_ctr(model: nn.Module, batch: Batch) -> np.ndarray:
    """Predicted CTR of a batch, ``(B,)``."""
    return torch.sigmoid(model.eval()(batch).logits).cpu().numpy()


@torch.no_grad()
def leave_one_out_effects(model: nn.Module, batch: Batch) -> tuple[float, np.ndarray]:
    """What each behaviour of one sample adds to its log-odds: the log-odds with the whole history less those without it.

    Any model that sees the history can be asked, with attention or without. Effects need not add up to the whole: two like
    behaviours each have a small one, since the other is still there.

    Args:
        model: a trained model.
        batch: one sample.

    Returns:
        The log-odds of the sample, and the effect of each behaviour ``(T,)``, oldest first.
    """
    assert batch.size == 1, f"one sample expected, found {batch.size}"
    model.eval()
    length = int(batch.offsets[-1])
    whole = float(model(batch).logits)
    if not length:
        return whole, np.zeros(0)
    keep = ~torch.eye(length, dtype=torch.bool)
    kept = torch.arange(length).expand(length, length)[keep]  # history j has all behaviours but the j-th
    many = replace(
        batch,
        history={name: codes[kept] for name, codes in batch.history.items()},
        offsets=torch.arange(length + 1) * (length - 1),
        owner=None,
        **{group: _repeated(getattr(batch, group), length) for group in ("candidate", "profile", "context")},
        labels=batch.labels.expand(length),
    )
    return whole, whole - model(many).logits.double().cpu().numpy()


def single_sample_batch(
    samples: SampleSet, user: int, history_end: int, item: int, *, context: dict[str, int] | None = None
) -> Batch:
    """A batch of one sample that need not be among the samples.

    Args:
        samples: whose log, feature codes and window are taken.
        user, item: codes.
        history_end: how many of the user's behaviours are the history.
        context: codes of the impression; the unknown ones where left out.

    Raises:
        InputError: a code is out of range.
    """
    users, items = len(samples.store.offsets) - 1, min(map(len, samples.store.items.values()))
    if not 0 < user < users:
        raise InputError(f"user: code {user} is not one of the log's {users - 1} users")
    if not 0 <= item < items:
        raise InputError(
            f"item: code {item} is outside the catalogue of {items} items, code 0 (unknown) included"
        )
    fields = {field.name: (context or {}).get(field.name, 0) for field in samples.store.schema.context}
    single = SampleSet(
        samples.store, samples.max_len, _tensor(user), _tensor(item), _tensor(history_end), torch.zeros(1),
        {name: _tensor(code) for name, code in fields.items()},
    )  # fmt: skip
    return single.batch(torch.zeros(1, dtype=torch.int64))


def _repeated(codes: dict[str, Tensor], times: int) -> dict[str, Tensor]:
    return {name: values.expand(times) for name, values in codes.items()}


def _tensor(code: int) -> Tensor:
    return torch.tensor([code], dtype=torch.int32)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()
