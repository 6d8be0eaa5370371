"""Random histories: in training, the samples of a user see a random part of the user's other behaviours.

An item-based model learns from pairs of a rated item and a candidate. With preceding behaviours every pair of a user occurs in one
order and every candidate in one history; with random parts, drawn again in each epoch, it occurs in both orders and in as many
histories as there are epochs. Neural autoregressive models of ratings are trained like this (CF-NADE, Zheng et al. 2016, section 4.1).
Validation and test samples always see the behaviours before them.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.models.batch import Batch
from deep_interest.ops.runtime.host_copies import copy_to_device
from deep_interest.training.data import SampleSet
from deep_interest.training.history import Histories
from deep_interest.training.tensors import on_host

_USAGE = "set histories: preceding, or use the protocol rated with features of items and own columns only"


@dataclass(frozen=True)
class RandomHistories:
    """Makes training batches in which each user has one random history.

    A user's behaviours become part of the history with the probability ``sqrt(u)``, where u is drawn uniformly for each user, so that
    long histories are more frequent than short ones. The samples of these behaviours are left out of the batch; the others are its
    targets. They are weighted so that a user counts in proportion to the samples in the batch before, whatever the length of the history.

    Attributes:
        samples: training samples, one for each behaviour of their users.
        user: ``(n,)`` int64 user of each sample.
        behavior: ``(n,)`` int64 index of the sample's own behaviour in the log.
    """

    samples: SampleSet
    user: np.ndarray
    behavior: np.ndarray

    @classmethod
    def build(cls, samples: SampleSet) -> "RandomHistories":
        """Find the behaviour of each sample.

        Raises:
            InputError: samples and behaviours do not correspond, or a field depends on the time or order of the behaviours.
        """
        store, user = samples.store, on_host(samples.user).numpy().astype(np.int64)
        derived = [field.name for field in store.schema.behavior if field.derived]
        if derived or store.sequences or samples.given_segment is not None:
            found = derived or list(store.sequences) or ["given histories"]
            raise InputError(f"histories: random cannot be used with {', '.join(found)}; {_USAGE}")
        offsets = on_host(store.offsets).numpy()
        counts, lengths = np.bincount(user, minlength=len(offsets) - 1), np.diff(offsets)
        different = np.flatnonzero((counts > 0) & (counts != lengths))
        if len(different) or (np.diff(user) < 0).any():
            raise InputError(
                "histories: random needs one training sample for each behaviour of the training users, found "
                f"{len(different)} users with other numbers of samples; {_USAGE}"
            )
        first = np.cumsum(counts) - counts
        behavior = offsets[user] + np.arange(len(user)) - first[user]
        return cls(samples, user, behavior)

    def batch(self, rows: Tensor, *, negatives: Collection[str] = ()) -> Batch:
        """Draw a history for each user of some samples from torch's random state, and gather the remaining samples.

        Args:
            rows: ``(B,)`` indices of samples, those of a user adjacent, on the CPU.
            negatives: as in `SampleSet.batch`.
        """
        chosen = rows.numpy()
        users, group = _groups(self.user[chosen])
        offsets = on_host(self.samples.store.offsets).numpy()
        behaviors, of = _ranges(offsets[users], offsets[users + 1])
        share = torch.rand(len(users)).sqrt().numpy()
        kept = torch.rand(len(behaviors)).numpy() < share[of]
        targets = ~_contains(behaviors[kept], self.behavior[chosen], size=int(offsets[-1]))
        if not targets.any():
            targets[-1] = True
            kept &= behaviors != self.behavior[chosen[-1]]
        history = _newest(behaviors[kept], of[kept], len(users), self.samples.max_len)
        batch = self.samples.batch(
            torch.from_numpy(chosen[targets]),
            negatives=negatives,
            histories=self._gather(*history, group[targets]),
        )
        weights = _weights(group, targets)
        return replace(batch, weights=copy_to_device(weights, batch.labels.device))

    def _gather(self, behaviors: np.ndarray, lengths: np.ndarray, owner: np.ndarray) -> Histories:
        """Gather the behaviours of the histories, without those that no sample owns."""
        owned = np.unique(owner)
        start = np.cumsum(lengths) - lengths
        index, _ = _ranges(start[owned], (start + lengths)[owned])
        store = self.samples.store
        if store.value_sets:
            store = store.on_host  # the host gathers such batches
        device = store.offsets.device
        at = copy_to_device(behaviors[index], device)
        codes = {field.name: store.history[field.name].index_select(0, at) for field in store.schema.behavior}
        offsets = np.append(0, np.cumsum(lengths[owned]))
        return Histories(
            codes,
            copy_to_device(offsets, device),
            copy_to_device(np.searchsorted(owned, owner), device),
            None,
        )


def _groups(user: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the users of runs of equal users ``(G,)``, and the run of each element ``(B,)``."""
    first = np.ones(len(user), bool)
    first[1:] = user[1:] != user[:-1]
    return user[first], np.cumsum(first) - 1


def _ranges(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the integers of ranges ``[begin, end)``, concatenated, and the range of each."""
    of = np.repeat(np.arange(len(begin)), end - begin)
    start = np.cumsum(end - begin) - (end - begin)
    return np.arange(len(of)) - (start - begin)[of], of


def _contains(values: np.ndarray, wanted: np.ndarray, *, size: int) -> np.ndarray:
    """Return which of the wanted integers, below ``size``, are among the values."""
    present = np.zeros(size, bool)
    present[values] = True
    return present[wanted]


def _newest(
    behaviors: np.ndarray, of: np.ndarray, groups: int, max_len: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the last ``max_len`` behaviours of each group, and their number ``(G,)``."""
    lengths = np.bincount(of, minlength=groups)
    from_end = np.cumsum(lengths)[of] - np.arange(len(of))
    return behaviors[from_end <= max_len], lengths.clip(max=max_len)


def _weights(group: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the weight of each target, with a mean of 1: samples of the user over targets of the user."""
    samples = np.bincount(group)
    weights = (samples / np.bincount(group[targets], minlength=len(samples)).clip(min=1))[group[targets]]
    return (weights / weights.mean()).astype(np.float32)
