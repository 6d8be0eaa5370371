"""The state of a running fit on disk: what a killed run needs to go on as if it had not been killed."""

import hashlib
import json
import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import deep_interest
from deep_interest.io.atomic import atomic_path, clear_unfinished
from deep_interest.io.checksums import damage_of

logger = logging.getLogger(__name__)

_CODE = (
    "logs/*.py",
    "ops/**/*.py",
    "models/*.py",
    "training/*.py",
    "evaluation/metrics.py",
)  # what decides a fit's result


@dataclass
class Progress:
    """How far a fit is; plain values only, so that it can be saved beside the tensors.

    Attributes:
        epoch: the running epoch, from 0.
        step: steps done in it.
        total_steps: steps done since the start.
        learning_rate_factor: what plateaus have made of the learning rate.
        best: the best value of the selection metric; None before the first evaluation.
        bad_evaluations: evaluations in a row that were no better.
        loss_sum, auxiliary_sum, loss_samples: of the training since the last evaluation.
        samples, seconds: trained in all, evaluation and saving not counted.
        done: the fit is over.
        history: a row for each evaluation.
    """

    epoch: int = 0
    step: int = 0
    total_steps: int = 0
    learning_rate_factor: float = 1.0
    best: float | None = None
    bad_evaluations: int = 0
    loss_sum: float = 0.0
    auxiliary_sum: float = 0.0
    loss_samples: int = 0
    samples: int = 0
    seconds: float = 0.0
    done: bool = False
    history: list[dict[str, float]] = field(default_factory=list)


def save_state(path: Path, *, fingerprint: str, progress: Progress, tensors: dict[str, Any]) -> None:
    """Write the state in one atomic step.

    Args:
        path: the file.
        fingerprint: of everything that decides the result.
        progress: plain values.
        tensors: model, optimiser, best model and random state.
    """
    with (
        atomic_path(path, checksum=True) as temporary,
        temporary.open("wb") as file,
    ):  # by its path, torch would hide a full disk
        torch.save({"fingerprint": fingerprint, "progress": asdict(progress), **tensors}, file)


def load_state(path: Path, *, fingerprint: str, device: torch.device) -> dict[str, Any] | None:
    """Load the saved state if it belongs to this very fit; None if there is none or it is of another one.

    A damaged state is one warning, and None as well: the fit starts again. What a killed writer has left is removed.
    """
    clear_unfinished(path)
    if not path.exists():
        return None
    try:
        if damage := damage_of(path):
            raise ValueError(damage)
        state = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # also a whole file that another version of torch has written
        logger.warning("%s: %s; the fit starts again", path, error)
        return None
    return state if state["fingerprint"] == fingerprint else None


def fingerprint(*parts: Any) -> str:
    """A hash of everything that decides a fit's result: options, data, code, torch's version."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([str(part) for part in parts]).encode())
    digest.update(torch.__version__.encode())
    digest.update(code_hash().encode())
    return digest.hexdigest()


def code_hash() -> str:
    """A hash of the sources that decide a fit's result."""
    root = Path(deep_interest.__file__).parent
    digest = hashlib.blake2b(digest_size=16)
    for pattern in _CODE:
        for file in sorted(root.glob(pattern)):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()
