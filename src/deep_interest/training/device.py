"""Where tensors live: ``auto`` takes CUDA where there is one."""

import torch

from deep_interest.errors import InputError


def resolve_device(name: str, what: str = "training.device") -> torch.device:
    """The torch device of a parameter value.

    Args:
        name: ``auto`` or a device of torch.
        what: name of the parameter, for error messages.

    Raises:
        InputError: no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        here = ", ".join(["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))])
        raise InputError(
            f"{what}: {name!r} does not exist here; this machine has {here}; 'auto' picks the fastest"
        ) from error
    return device
