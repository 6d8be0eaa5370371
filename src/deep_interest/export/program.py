"""Trace a trained model for one user and many candidates, and write it as ONNX or a `torch.export` archive."""

import copy
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.export.inputs import InputSpec, example_inputs, input_specs
from deep_interest.export.logits import logits
from deep_interest.export.request import Request
from deep_interest.logs.schema import FeatureSchema

OUTPUT = "ctr"
_UNCALIBRATED = Calibration()
_LONGEST = 2**31 - 1
_TRAINING_ONLY = ("auxiliary", "booster", "soft.mlp")  # submodules that only a loss uses


class Calibrated(nn.Module):
    """A calibration as tensor operations in float64, equal to `Calibration`.

    Args:
        calibration: the calibration.
    """

    def __init__(self, calibration: Calibration) -> None:
        super().__init__()
        isotonic, ends = calibration.isotonic, np.array([0.0, 1.0])
        scores, levels = (ends, ends) if isotonic is None else (isotonic.scores, isotonic.probabilities)
        slopes = np.diff(levels) / np.diff(scores)
        self.negatives = calibration.negatives
        for name, values in (
            ("borders", scores[1:-1]),
            ("starts", scores[:-1]),
            ("levels", levels[:-1]),
            ("slopes", slopes),
        ):
            self.register_buffer(name, torch.from_numpy(values.copy()))

    def forward(self, ctr: Tensor) -> Tensor:
        """Return the calibrated probabilities ``(C,)`` float64."""
        p = ctr.double()
        odds = p * self.negatives
        p = odds / (odds + (1 - p))
        segment = (p.unsqueeze(1) >= self.get_buffer("borders")).sum(1)
        starts, levels, slopes = (self.get_buffer(name)[segment] for name in ("starts", "levels", "slopes"))
        return levels + (p - starts) * slopes


class OneUser(nn.Module):
    """The CTR of each candidate for one user, in plain torch.

    Args:
        model: trained model.
        calibration: calibration of its probabilities.
    """

    def __init__(self, model: nn.Module, calibration: Calibration) -> None:
        super().__init__()
        schema = model.schema
        assert isinstance(schema, FeatureSchema)
        self.model, self.schema = model, schema
        self.calibrated = Calibrated(calibration) if calibration.changes else nn.Identity()

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the CTRs ``(C,)`` from the inputs by name (`inputs.input_specs`): float32, or float64 if calibrated."""
        ctr: Tensor = self.calibrated(torch.sigmoid(logits(self.model, Request(inputs, self.schema))))
        return ctr


class Program(NamedTuple):
    """A traced model.

    Attributes:
        exported: the program; its argument is the dictionary of the inputs.
        inputs: the inputs, in order; those that the model does not read are left out.
    """

    exported: ExportedProgram
    inputs: list[InputSpec]


def trace(model: nn.Module, calibration: Calibration = _UNCALIBRATED) -> Program:
    """Trace a model; the number of behaviours (from 0), of candidates (from 1) and of multi-hot values are dynamic.

    Args:
        model: trained model; it is not changed.
        calibration: calibration of its probabilities, which becomes part of the program.

    Raises:
        InputError: the model has no forward pass for a single user.
    """
    one_user = OneUser(_for_scoring(model), calibration).eval()
    specs = input_specs(one_user.schema)
    exported = _export(one_user, specs)
    names = _names_of_used_inputs(exported)
    used = [spec for spec, is_used in zip(specs, names, strict=True) if is_used]
    return Program(exported if used == specs else _export(one_user, used), used)


def write_pt2(program: Program, path: Path) -> None:
    """Write the program for `torch.export.load`."""
    with path.open("wb") as file, _quiet():
        torch.export.save(program.exported, file)


def write_onnx(program: Program, path: Path) -> None:
    """Write the program as an ONNX model; the inputs keep their names, the output is ``ctr``."""
    names = [spec.name for spec in program.inputs]
    with _quiet():
        converted = torch.onnx.export(
            program.exported, input_names=names, output_names=[OUTPUT], dynamo=True, verbose=False
        )
        assert converted is not None
        converted.save(path)


def _for_scoring(model: nn.Module) -> nn.Module:
    """Return a copy without the submodules that only a loss uses."""
    model = copy.deepcopy(model).cpu().eval().requires_grad_(requires_grad=False)
    names = {name for name, _ in model.named_modules()}
    for name in _TRAINING_ONLY:
        if name in names:
            parent, _, child = name.rpartition(".")
            delattr(model.get_submodule(parent), child)
    return model


def _export(one_user: OneUser, specs: Sequence[InputSpec]) -> ExportedProgram:
    lengths = dict.fromkeys(spec.shape for spec in specs if spec.shape != "1")
    dimensions = {
        length: Dim(f"length_{k}", min=1 if length == "C" else 0, max=_LONGEST)
        for k, length in enumerate(lengths)
    }
    shapes = {spec.name: {0: dimensions[spec.shape]} if spec.shape in dimensions else {} for spec in specs}
    with torch.no_grad(), _quiet():
        return torch.export.export(one_user, (example_inputs(specs),), dynamic_shapes={"inputs": shapes})


def _names_of_used_inputs(exported: ExportedProgram) -> list[bool]:
    """Return whether each input is read, in order."""
    names = exported.graph_signature.user_inputs
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    return [bool(nodes[str(name)].users) for name in names]


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress and the advice of the exporters."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
