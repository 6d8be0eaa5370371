"""Fields of a behaviour that depend on the sample: the time since the behaviour, and the number of later behaviours."""

from collections.abc import Mapping

import torch
from torch import Tensor

from deep_interest.logs.feature_columns import GAP, POSITION
from deep_interest.ops.jagged import Jagged


def gap_codes(elapsed: Tensor, size: int) -> Tensor:
    """Return the codes of times since a behaviour: 1 for 0, 1 + k from 2^(k-1) to below 2^k, at most ``size - 1``.

    Args:
        elapsed: ``(N,)`` int64, in the unit of the log's times.
        size: number of codes, including the unknown code.

    Returns:
        ``(N,)`` int32.
    """
    exponents = torch.frexp(elapsed.clamp(min=0).double()).exponent  # the number of bits: exact below 2^53
    return (1 + exponents).clamp(max=size - 1).int()


def position_codes(histories: Jagged, size: int) -> Tensor:
    """Return the codes of positions: 1 for the newest behaviour of a history, 1 + k for one with k later ones, at most ``size - 1``.

    Returns:
        ``(N,)`` int32.
    """
    return (1 + histories.distances).clamp(max=size - 1).int()


def derived_codes(
    derived: Mapping[str, int], histories: Jagged, times: Tensor | None, now: Tensor | None
) -> dict[str, Tensor]:
    """Return the codes ``(N,)`` of the derived fields of H histories with N behaviours.

    Args:
        derived: ``{field: size}``.
        histories: the histories as segments of the behaviours.
        times: ``(N,)`` int64 time of each behaviour; needed for ``gap``.
        now: ``(H,)`` int64 time of the samples of each history; needed for ``gap``.
    """
    codes = {}
    if GAP in derived:
        assert times is not None
        assert now is not None
        codes[GAP] = gap_codes(now[histories.segments] - times, derived[GAP])
    if POSITION in derived:
        codes[POSITION] = position_codes(histories, derived[POSITION])
    return codes
