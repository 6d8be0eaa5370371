"""What the host knows of a device's tensors without waiting for the device: NumPy arrays that it keeps beside them."""

import numpy as np
import torch
from torch import Tensor


def with_host_copy(tensor: Tensor, array: np.ndarray) -> Tensor:
    """The tensor, whose values the host has in ``array``; nobody writes to either."""
    tensor.known_values = array
    return tensor


def copy_to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """An array of the host's on the device, of a batch's size; neither waits for the other, and the host remembers it."""
    tensor = torch.from_numpy(array)
    if device.type != "cpu":
        tensor = tensor.pin_memory().to(device, non_blocking=True)
    return with_host_copy(tensor, array)


def host_values(tensor: Tensor) -> np.ndarray:
    """A tensor's values: those that the host remembers; else it waits until the device has them."""
    array = getattr(tensor, "known_values", None)
    return synchronize(tensor) if array is None else array


def synchronize(tensor: Tensor) -> np.ndarray:
    """A tensor's values, for which the host waits if it is not its own tensor."""
    return tensor.cpu().numpy()
