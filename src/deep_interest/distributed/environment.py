"""What ``torchrun`` says about this process, without torch."""

import os
from dataclasses import dataclass
from importlib.util import find_spec

from deep_interest.errors import InputError


@dataclass(frozen=True)
class Ranks:
    """The processes of a run that ``torchrun`` has started.

    Attributes:
        rank: index of this process; 0 reads raw files and writes results.
        size: number of processes.
        local_size: number of processes on this machine.
    """

    rank: int
    size: int
    local_size: int


def current_ranks() -> Ranks | None:
    """Return the ranks of this run; None for a process that ``torchrun`` has not started."""
    variables = os.environ
    if "TORCHELASTIC_RUN_ID" not in variables or "RANK" not in variables:
        return None
    return Ranks(
        int(variables["RANK"]), int(variables["WORLD_SIZE"]), int(variables.get("LOCAL_WORLD_SIZE", "1"))
    )


def is_worker() -> bool:
    """Return whether this process is a rank other than 0, which trains and predicts but writes no results."""
    ranks = current_ranks()
    return ranks is not None and ranks.rank > 0


def require_torchrec() -> None:
    """Check that TorchRec is installed.

    Raises:
        InputError: it is not.
    """
    if not (find_spec("torchrec") and find_spec("fbgemm_gpu")):
        raise InputError(
            "torchrun: training on several processes needs TorchRec, which is not installed; install it as docs/scale.md "
            "says"
        )
