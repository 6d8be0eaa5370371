"""Saved state of a running fit, from which a killed run resumes exactly."""

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
    "distributed/*.py",
    "evaluation/metrics.py",
)  # sources that determine the result of a fit


@dataclass
class Progress:
    """Progress of a fit, as plain values that can be saved with the tensors.

    Attributes:
        epoch: current epoch, from 0.
        step: completed steps of the epoch.
        total_steps: completed steps since the start.
        learning_rate_factor: factor of the learning rate after plateaus.
        best: best value of the selection metric; None before the first evaluation.
        bad_evaluations: number of consecutive evaluations without improvement.
        loss_sum, auxiliary_sum, loss_samples: sums of the losses, and number of samples, since the last evaluation.
        samples, seconds: samples trained and seconds of training in total, without evaluation, saving and
            compilation.
        done: whether the fit is complete.
        history: one row per evaluation.
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
    """Write the state atomically.

    Args:
        path: file to write.
        fingerprint: hash of everything that determines the result.
        progress: progress of the fit.
        tensors: model, optimiser, best model and random state.
    """
    with (
        atomic_path(path, checksum=True) as temporary,
        temporary.open("wb") as file,
    ):  # given a path, torch would hide the error of a full disk
        torch.save({"fingerprint": fingerprint, "progress": asdict(progress), **tensors}, file)


def load_state(path: Path, *, fingerprint: str, device: torch.device) -> dict[str, Any] | None:
    """Load the saved state of a fit; None if there is none or if its fingerprint differs.

    A damaged state is logged as a warning and ignored, so that the fit starts again. Unfinished files of killed writers are
    removed.
    """
    clear_unfinished(path)
    if not path.exists():
        return None
    try:
        if damage := damage_of(path):
            raise ValueError(damage)
        state = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # including valid files written by another version of torch
        logger.warning("%s: %s; the fit starts again", path, error)
        return None
    return state if state["fingerprint"] == fingerprint else None


def fingerprint(*parts: Any) -> str:
    """Hash everything that determines the result of a fit: options, data, code, torch's version."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([str(part) for part in parts]).encode())
    digest.update(torch.__version__.encode())
    digest.update(code_hash().encode())
    return digest.hexdigest()


def code_hash() -> str:
    """Hash the sources that determine the result of a fit."""
    root = Path(deep_interest.__file__).parent
    digest = hashlib.blake2b(digest_size=16)
    for pattern in _CODE:
        for file in sorted(root.glob(pattern)):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()
