"""Compare what the service has served with batch scoring: the same features, the same scores."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema
from deep_interest.serving.encoder import Encoder
from deep_interest.serving.version import Version
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict
from deep_interest.training.history import LogTensors

TOLERANCE = 1e-6
"""Largest difference of two scores that count as equal."""

_AT_ONCE = 256  # requests per batch
_CPU = torch.device("cpu")


class Served(BaseModel):
    """A line of the request log.

    Attributes:
        request_id, version: id of the request, and version that has answered it.
        time: when it was answered, in seconds since the epoch; 0 in lines that older services have logged.
        request: the request as it came.
        features: codes by group (``history``, ``candidates``, ``profile``, ``context``) and field.
        ctr: ``(C,)`` scores that were served.
    """

    model_config = ConfigDict(frozen=True)

    request_id: str
    version: str
    time: float = Field(0.0, allow_inf_nan=False)
    request: dict[str, Any]
    features: dict[str, dict[str, Any]]
    ctr: list[float]


def read_request_log(folder: Path) -> Iterator[Served]:
    """Read the lines of a request log; an unfinished last line of a killed worker is left out.

    Raises:
        InputError: a line is not one of the service.
    """
    for file in sorted(folder.glob("requests.*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith("\n"):
                    continue
                try:
                    yield Served.model_validate_json(line)
                except ValueError as error:
                    raise InputError(
                        f"{file}, line {number}: this is not a line of the service's request log; remove it, or the file"
                    ) from error


def compare_served(
    served: Iterable[Served],
    version_of: Callable[[str], Version],
    encoder_of: Callable[[Version], tuple[Encoder, Mapping[str, np.ndarray]]],
    *,
    tolerance: float,
) -> dict[str, Any]:
    """Score what was served again with the code of batch scoring, and encode candidates and context again.

    Args:
        served: lines of the request log.
        version_of: returns a version of the registry.
        encoder_of: returns the vocabularies of a version for the current days, and ``{field: (I + 1,)}`` codes of the items.
        tolerance: largest difference of two scores that counts as equal.

    Returns:
        ``requests``, ``candidates``, ``largest_difference``, ``passed``, ``differing_requests`` (ids of the first ten), the number of
        requests whose ``candidates`` or ``context`` now have other codes, and ``versions``.

    Raises:
        InputError: the log is empty, a version is not in the registry, or a model has multi-hot features, whose value sets the log does
            not have.
    """
    total = {"requests": 0, "candidates": 0, "other_candidate_codes": 0, "other_context_codes": 0}
    largest, differing, versions = 0.0, [], []
    for name, lines in groupby(sorted(served, key=lambda of: of.version), key=lambda of: of.version):
        version = version_of(name)
        _check_schema(version)
        model, calibration, (encoder, items) = version.model(), version.calibration(), encoder_of(version)
        versions.append(name)
        for part in _parts(lines):
            scores = calibration(predict(model, _samples(version.schema, part), batch_size=4096))
            for one, found in zip(
                part, np.split(scores, np.cumsum([len(of.ctr) for of in part])[:-1]), strict=True
            ):
                difference = float(np.abs(found - np.asarray(one.ctr, np.float64)).max())
                largest = max(largest, difference)
                if not difference <= tolerance:
                    differing.append(one.request_id)
                total["requests"] += 1
                total["candidates"] += len(one.ctr)
                total["other_candidate_codes"] += _other_candidates(one, encoder, items)
                total["other_context_codes"] += _other_context(one, encoder, version.schema)
    if not total["requests"]:
        raise InputError("the request log is empty; run the service with --log-requests and send it requests")
    return {
        **total, "largest_difference": largest, "tolerance": tolerance, "passed": not differing,
        "differing_requests": differing[:10], "versions": versions,
    }  # fmt: skip


def _parts(lines: Iterable[Served]) -> Iterator[list[Served]]:
    part: list[Served] = []
    for one in lines:
        part.append(one)
        if len(part) == _AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _check_schema(version: Version) -> None:
    if version.schema.multi_hot:
        raise InputError(
            f"version {version.id}: the request log does not have the value sets of the multi-hot "
            f"{', '.join(sorted(version.schema.multi_hot))}; parity cannot be checked for this model"
        )


def _samples(schema: FeatureSchema, served: list[Served]) -> SampleSet:
    """Return what was served as samples: each request is a user with a segment of the log, each candidate an item."""
    stored = schema.model_copy(
        update={"behavior": tuple(of.model_copy(update={"derived": False}) for of in schema.behavior)}
    )

    def codes(group: str, names: Iterable[str]) -> dict[str, Tensor]:
        return {
            name: torch.tensor(
                [code for one in served for code in one.features[group][name]], dtype=torch.int32
            )
            for name in names
        }

    first = next((of.name for of in schema.behavior), None)
    lengths = [0 if first is None else len(one.features["history"][first]) for one in served]
    sizes = torch.tensor([len(one.ctr) for one in served])
    request = torch.arange(len(served), dtype=torch.int32).repeat_interleave(sizes)
    offsets = torch.tensor([0, *np.cumsum(lengths)])
    store = FeatureStore(
        stored, LogTensors(offsets, codes("history", [of.name for of in schema.behavior])),
        codes("candidates", [of.name for of in schema.item]), codes("profile", [of.name for of in schema.profile]),
    )  # fmt: skip
    return SampleSet(
        store, max(1, *lengths), user=request, item=torch.arange(len(request), dtype=torch.int32),
        history_end=torch.tensor(lengths, dtype=torch.int32)[request.long()], labels=torch.zeros(len(request)),
        context=codes("context", [of.name for of in schema.context]),
    )  # fmt: skip


def _other_candidates(served: Served, encoder: Encoder, items: Mapping[str, np.ndarray]) -> bool:
    """Whether a candidate now has other codes: the item's features have changed, or the item is new in the catalogue."""
    codes = encoder.item_codes([of["item"] for of in served.request["candidates"]], "candidates").numpy()
    return any(
        not np.array_equal(items[name][codes], np.asarray(logged, items[name].dtype))
        for name, logged in served.features["candidates"].items()
    )


def _other_context(served: Served, encoder: Encoder, schema: FeatureSchema) -> bool:
    names = [of.name for of in schema.context]
    size = len(served.ctr)
    codes, _ = encoder.encode_context(served.request.get("context", {}), names, size, served.version)
    return any(
        not torch.equal(of, of.new_tensor(served.features["context"][name])) for name, of in codes.items()
    )
