"""The choice between the compiled and the plain implementation of an operation, and tensors as arguments of kernels."""

import numpy as np
import torch
from torch import Tensor

from deep_interest.ops.runtime.engine import current_engine


def can_use_compiled(*tensors: Tensor) -> bool:
    """Check whether the compiled implementation runs: for float32 on the CPU, unless the engine is ``plain``."""
    if current_engine() == "plain":
        return False
    supported = [tensor.is_cpu and tensor.dtype == torch.float32 for tensor in tensors]
    return all(supported)  # called by every operation: a list is faster than a generator


def as_arrays(*tensors: Tensor) -> list[np.ndarray]:
    """Return the tensors as C-contiguous arrays, which share the memory of tensors that are contiguous already."""
    return [(tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy() for tensor in tensors]
