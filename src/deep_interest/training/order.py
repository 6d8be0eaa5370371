"""The order of the training samples in an epoch: all of them shuffled, or one window of neighbouring samples after the other."""

from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from deep_interest.training.data import SampleSet

_EPOCHS = 1_000_003  # between the seeds of two fits
_WINDOWS = 15_485_863  # between the seeds of neighbouring windows


class SampleOrder:
    """The indices of the samples in the order of an epoch; a slice of them is computed when it is used.

    Samples that are mapped into memory are read window by window: the next one in the background, and finished ones are dropped.

    Args:
        samples: training samples.
        seed: seed of the fit.
        epoch: index of the epoch.
        window: number of neighbouring samples that are shuffled together; windows come in a random order. None for all samples.
        by_request: whether samples of the same user and history stay together, within a window.
    """

    def __init__(
        self, samples: SampleSet, *, seed: int, epoch: int, window: int | None, by_request: bool
    ) -> None:
        self._samples, self._by_request = samples, by_request
        self._seed, self._size = seed * _EPOCHS + epoch, window or max(len(samples), 1)
        windows = -(-len(samples) // self._size)
        order = torch.randperm(windows, generator=torch.Generator().manual_seed(self._seed))
        self._windows = order.tolist() if windows > 1 else [0]
        lengths = [min(self._size, len(samples) - index * self._size) for index in self._windows]
        self._ends = torch.tensor(lengths).cumsum(0)
        self._current: tuple[int, Tensor] | None = None
        self._reader = ThreadPoolExecutor(1) if windows > 1 else None
        self._reading: Future[None] | None = None

    def __getitem__(self, positions: slice) -> Tensor:
        """Return the samples at some neighbouring positions of the epoch, ``(n,)`` int64."""
        begin, end = positions.start, min(positions.stop, int(self._ends[-1]))
        found = []
        while begin < end:
            place = int(torch.searchsorted(self._ends, begin, right=True))
            last = int(self._ends[place])
            rows = self._rows(place)
            first = last - len(rows)
            found.append(rows[begin - first : min(end, last) - first])
            begin = last
        return found[0] if len(found) == 1 else torch.cat(found)

    def close(self) -> None:
        """End the background reading."""
        if self._reader is not None:
            self._reader.shutdown(wait=True, cancel_futures=True)

    def _rows(self, place: int) -> Tensor:
        """Return the samples of the window at a place of the order."""
        if self._current is None or self._current[0] != place:
            self._read_around(place)
            begin, end = self._bounds(place)
            self._current = place, begin + self._shuffled(begin, end, self._windows[place])
        return self._current[1]

    def _bounds(self, place: int) -> tuple[int, int]:
        begin = self._windows[place] * self._size
        return begin, min(begin + self._size, len(self._samples))

    def _shuffled(self, begin: int, end: int, window: int) -> Tensor:
        generator = torch.Generator().manual_seed(self._seed + window * _WINDOWS)
        if not self._by_request:
            return torch.randperm(end - begin, generator=generator)
        requests = self._samples.requests_of(begin, end)
        rank = torch.randperm(int(requests.max()) + 1, generator=generator)
        return rank[requests].argsort(stable=True)

    def _read_around(self, place: int) -> None:
        """Drop the window that is finished, and read the one after ``place`` in the background."""
        if self._reader is None:
            return
        if self._reading is not None:
            self._reading.result()
        if self._current is not None:
            self._samples.drop(*self._bounds(self._current[0]))
        if place + 1 < len(self._windows):
            self._reading = self._reader.submit(self._samples.read_ahead, *self._bounds(place + 1))
