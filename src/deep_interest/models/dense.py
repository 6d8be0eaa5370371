"""Dense fields: a code is a standardised number z, and the vector of a field is ``z · w_1``, or ``w_0`` for a missing value.

``w_0`` and ``w_1`` are the two rows of the field's table: the embedding of a numeric field in DeepFM (Guo et al. 2017) and AutoInt (Song
et al. 2019). The encoding of z is that of `logs.standardised`, and only this module decodes it in models.
"""

import torch
from torch import Tensor

from deep_interest.logs.standardised import CODES, LIMIT, STEPS
from deep_interest.ops.bounds import check_codes


def table_rows(codes: Tensor, field: str) -> Tensor:
    """Return the row of each code: 0 for a missing value, otherwise 1. Shape: ``(n,) -> (n,)``.

    Args:
        codes: codes of a dense field.
        field: name of the field, for the error message.

    Raises:
        InputError: a code on the CPU is not the code of a number.
    """
    if codes.is_cpu:
        check_codes(codes.numpy(), CODES, field)
    return codes.clamp(max=1)


def times_z(rows: Tensor, codes: Tensor) -> Tensor:
    """Multiply the rows that codes look up by z, and those of missing values by 1. Shape: ``(n, D), (n,) -> (n, D)``."""
    return rows * z_of(codes, rows.dtype, missing=1).unsqueeze(1)


def z_of(codes: Tensor, dtype: torch.dtype, *, missing: float = 0) -> Tensor:
    """Return z of each code, and ``missing`` for a missing value. Shape: ``(n,) -> (n,)``."""
    z = (codes.to(dtype) - 1) / STEPS - LIMIT
    return z.masked_fill(codes == 0, missing)
