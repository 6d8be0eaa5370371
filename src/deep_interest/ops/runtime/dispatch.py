"""Choice of the implementation of an operation, and its arguments as arrays."""

import numpy as np
import torch
from torch import Tensor

from deep_interest.ops.runtime.engine import current_engine


def can_use_compiled(*tensors: Tensor) -> bool:
    """Whether the compiled implementation takes these tensors: float32 on the CPU, unless the engine is ``plain``."""
    if current_engine() == "plain":
        return False
    found = [tensor.is_cpu and tensor.dtype == torch.float32 for tensor in tensors]
    return all(found)  # every operation asks: a list is faster than a generator


def as_arrays(*tensors: Tensor) -> list[np.ndarray]:
    """The tensors as arrays on the same memory, rows side by side."""
    return [(tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy() for tensor in tensors]
