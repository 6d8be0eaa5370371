"""Values of a device's tensors that the host knows without a synchronisation: NumPy arrays kept with the tensors."""

import numpy as np
import torch
from torch import Tensor

_HOST_COPY = "host_copy"  # attribute of a tensor


def with_host_copy(tensor: Tensor, array: np.ndarray) -> Tensor:
    """Attach to a tensor an array with the same values; neither may be written to afterwards.

    Args:
        tensor: tensor on any device.
        array: its values on the host.

    Returns:
        ``tensor``.
    """
    setattr(tensor, _HOST_COPY, array)
    return tensor


def copy_to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Copy an array to a device asynchronously and keep it as the tensor's host copy.

    Args:
        array: array of a batch, which is pinned for the copy.
        device: device of the returned tensor; on a CPU the tensor shares the array's memory.
    """
    tensor = torch.from_numpy(array)
    if device.type != "cpu":
        tensor = tensor.pin_memory().to(device, non_blocking=True)
    return with_host_copy(tensor, array)


def host_values(tensor: Tensor) -> np.ndarray:
    """Return a tensor's values: its host copy, or else the result of a synchronisation with the device."""
    array = getattr(tensor, _HOST_COPY, None)
    return synchronize(tensor) if array is None else array


def synchronize(tensor: Tensor) -> np.ndarray:
    """Copy a tensor's values to the host, which waits for the device."""
    return tensor.cpu().numpy()
