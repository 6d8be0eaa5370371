"""Arrays as tensors on a device, with their host copies."""

import numpy as np
import torch
from torch import Tensor

from deep_interest.logs.multi_hot import ValueSets
from deep_interest.models.batch import ValueSetLookup, ValueSetsByField
from deep_interest.ops.runtime.host_copies import host_values, with_host_copy


def as_tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """Convert to a tensor; on a CPU it shares the memory of the array, so that processes share a memory-mapped log."""
    array = np.ascontiguousarray(array)
    return with_host_copy(torch.from_numpy(array).to(device), array)


def on_host(tensor: Tensor) -> Tensor:
    """Return the host copy of a tensor."""
    return torch.from_numpy(host_values(tensor))


def all_on_host(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: on_host(tensor) for name, tensor in tensors.items()}


def value_set_lookup(value_sets: ValueSets, device: torch.device) -> ValueSetLookup:
    return ValueSetLookup(as_tensor(value_sets.offsets, device), as_tensor(value_sets.values, device))


def value_sets_on(value_sets: ValueSetsByField, device: torch.device) -> dict[str, ValueSetLookup]:
    """Copy value sets to a device; they keep their host copies."""
    return {
        name: ValueSetLookup(*(as_tensor(host_values(of), device) for of in lookup))
        for name, lookup in value_sets.items()
    }


def within(value_sets: ValueSetLookup, size: int) -> ValueSetLookup:
    """Restrict value sets to the codes below ``size``."""
    arrays = ValueSets(host_values(value_sets.offsets), host_values(value_sets.values))
    return value_set_lookup(arrays.within(size), value_sets.values.device)


def as_tensors(arrays: dict[str, np.ndarray], device: torch.device) -> dict[str, Tensor]:
    return {name: as_tensor(array, device) for name, array in arrays.items()}
