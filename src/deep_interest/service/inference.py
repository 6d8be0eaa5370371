"""The Open Inference Protocol, version 2 (REST): tensors by name, in JSON or with the binary tensor data extension.

Inputs are ``items (C,)``, and optionally ``user (1,)``, ``bids (C,)``, ``history (T,)``, ``time (1,)`` and each context feature by its name,
``(1,)`` or ``(C,)``. Outputs are ``ctr (C,)`` and ``ecpm (C,)``, in the order of ``items``.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from pydantic import ValidationError
from starlette.responses import Response

from deep_interest.service.deployment import Deployment
from deep_interest.service.http import JSON, RequestError, invalid, parse
from deep_interest.service.rank_request import Ranked
from deep_interest.service.schemas import InferInput, InferOutput, InferRequest, RankRequest
from deep_interest.serving.ranker import Ranker, Ranking

HEADER_LENGTH = "inference-header-content-length"
"""Header of a body with binary tensors: length of its JSON part."""
_TYPES = {
    "BOOL": "<?", "UINT8": "<u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "<i1", "INT16": "<i2", "INT32": "<i4",
    "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_OUTPUTS = {"ctr": "FP32", "ecpm": "FP64"}
_SINGLE = ("user", "time")


def metadata(name: str, deployment: Deployment) -> dict[str, Any]:
    """Return the metadata of the model."""
    ranker = deployment.primary
    encoder = ranker.snapshot.encoder
    ids = {
        key: "INT64" if vocabulary.values.dtype.kind in "iu" else "BYTES"
        for key, vocabulary in (("user", encoder.users), ("items", encoder.items))
    }
    inputs = [
        ("items", ids["items"], [-1]), ("user", ids["user"], [1]), ("bids", "FP64", [-1]), ("history", ids["items"], [-1]),
        ("time", "INT64", [1]),
    ]  # fmt: skip
    inputs += [(feature, _type_of(ranker, feature), [-1]) for feature in ranker.context]
    return {
        "name": name,
        "versions": [of.version for of in deployment.rankers.values()],
        "platform": "deep-interest",
        "inputs": [{"name": key, "datatype": kind, "shape": shape} for key, kind, shape in inputs],
        "outputs": [{"name": key, "datatype": kind, "shape": [-1]} for key, kind in _OUTPUTS.items()],
        "parameters": {of.version: str(of.precision) for of in deployment.rankers.values()},
    }


def _type_of(ranker: Ranker, feature: str) -> str:
    if feature in ranker.facts.columns.numeric:
        return "FP64"
    dtype = ranker.snapshot.encoder.context.fields[feature].vocabulary.values.dtype
    return {"i": "INT64", "u": "INT64", "f": "FP64", "b": "BOOL"}.get(dtype.kind, "BYTES")


class Decoded(NamedTuple):
    """An inference request.

    Attributes:
        request: the ranking request.
        outputs: the outputs that it asks for.
        id: its id, any string; None if it has none.
    """

    request: Ranked
    outputs: list[InferOutput]
    id: str | None


def decode(body: bytes, header_length: str | None) -> Decoded:
    """Read an inference request.

    Raises:
        RequestError: a tensor is missing or unknown, or its data do not match its shape or type.
    """
    length = len(body)
    if header_length is not None:
        if not header_length.isdigit() or int(header_length) > length:
            raise RequestError(
                400, f"Inference-Header-Content-Length: found {header_length}, the body has {length} bytes"
            )
        length = int(header_length)
    request, rest = parse(InferRequest, body[:length]), memoryview(body)[length:]
    tensors: dict[str, list[Any]] = {}
    for of in request.inputs:
        size = of.parameters.get("binary_data_size")
        if size is None:
            tensors[of.name] = _values(of)
            continue
        if not isinstance(size, int) or not 0 <= size <= len(rest):
            raise RequestError(
                400, f"{of.name}: binary_data_size is {size!r}, but {len(rest)} bytes are left", of.name
            )
        tensors[of.name], rest = _binary(of, rest[:size]), rest[size:]
    if len(rest):
        raise RequestError(400, f"the body has {len(rest)} bytes after the last tensor")
    default = {"binary_data": bool(request.parameters.get("binary_data_output"))}
    requested = request.outputs or [InferOutput(name=name) for name in _OUTPUTS]
    outputs = [InferOutput(name=of.name, parameters=default | of.parameters) for of in requested]
    if unknown := [of.name for of in outputs if of.name not in _OUTPUTS]:
        raise RequestError(
            422, f"outputs: {unknown[0]} is not an output; choose {' or '.join(_OUTPUTS)}", "outputs"
        )
    return Decoded(_ranking_request(tensors), outputs, request.id)


def encode(request_id: str, outputs: Sequence[InferOutput], ranker: Ranker, ranking: Ranking) -> Response:
    """Return the response to an inference request."""
    described, binary = [], b""
    for of in outputs:
        values: np.ndarray = getattr(ranking, of.name).astype(_TYPES[_OUTPUTS[of.name]])
        tensor: dict[str, Any] = {"name": of.name, "datatype": _OUTPUTS[of.name], "shape": list(values.shape)}
        if of.parameters.get("binary_data"):
            data = values.tobytes()
            tensor["parameters"] = {"binary_data_size": len(data)}
            binary += data
        else:
            tensor["data"] = values.tolist()
        described.append(tensor)
    header = orjson.dumps(
        {
            "id": request_id, "model_name": ranker.facts.experiment, "model_version": ranker.version,
            "outputs": described, "parameters": ranker.precision.model_dump(),
        }
    )  # fmt: skip
    if not binary:
        return JSON(header)
    return Response(
        header + binary,
        media_type="application/octet-stream",
        headers={"Inference-Header-Content-Length": str(len(header))},
    )


def _ranking_request(tensors: dict[str, list[Any]]) -> Ranked:
    if "items" not in tensors:
        raise RequestError(422, f"inputs: items is missing; found {', '.join(tensors)}", "items")
    items = tensors.pop("items")
    bids = tensors.pop("bids", [1.0] * len(items))
    if len(bids) != len(items):
        raise RequestError(422, f"bids: found {len(bids)} values for {len(items)} items", "bids")
    block: dict[str, Any] = {"candidates": [{"item": i, "bid": b} for i, b in zip(items, bids, strict=True)]}
    for name in _SINGLE:
        if name in tensors:
            if len(tensors[name]) != 1:
                raise RequestError(422, f"{name}: found {len(tensors[name])} values, expected 1", name)
            block[name] = tensors.pop(name)[0]
    if "history" in tensors:
        block["history"] = tensors.pop("history")
    block["context"] = {name: values[0] if len(values) == 1 else values for name, values in tensors.items()}
    try:
        return Ranked.of(RankRequest.model_validate(block))
    except ValidationError as error:
        problem = invalid(error)
        field = (problem.field or "inputs").partition(".")[0]
        field = "items" if field == "candidates" else field
        raise RequestError(422, f"{field}: {problem.message.partition(': ')[2]}", field) from error


def _values(tensor: InferInput) -> list[Any]:
    """Return the values of a tensor in JSON, flat."""
    if tensor.data is None:
        raise RequestError(422, f"{tensor.name}: data is missing", tensor.name)
    values = [value for row in tensor.data for value in (row if isinstance(row, list) else [row])]
    return _checked(tensor, values)


def _binary(tensor: InferInput, data: memoryview) -> list[Any]:
    """Return the values of a binary tensor."""
    if tensor.datatype == "BYTES":
        return _checked(tensor, _strings(tensor, data))
    kind = _TYPES.get(tensor.datatype)
    if kind is None or len(data) % np.dtype(kind).itemsize:
        raise RequestError(
            422, f"{tensor.name}: {len(data)} bytes are not a tensor of {tensor.datatype}", tensor.name
        )
    return _checked(tensor, np.frombuffer(data, kind).tolist())


def _strings(tensor: InferInput, data: memoryview) -> list[str]:
    """Return strings that follow their lengths."""
    found, position = [], 0
    try:
        while position < len(data):
            (length,) = struct.unpack_from("<I", data, position)
            position += 4 + length
            if position > len(data):
                raise ValueError("the last string is cut off")
            found.append(bytes(data[position - length : position]).decode())
    except (struct.error, ValueError) as error:
        raise RequestError(422, f"{tensor.name}: the data are not strings ({error})", tensor.name) from error
    return found


def _checked(tensor: InferInput, values: list[Any]) -> list[Any]:
    """Check number and type of the values; whole numbers are accepted where numbers are expected."""
    if len(values) != math.prod(tensor.shape):
        raise RequestError(
            422,
            f"{tensor.name}: the shape is {tensor.shape}, but there are {len(values)} values",
            tensor.name,
        )
    kind = tensor.datatype
    if kind == "BYTES":
        valid = all(isinstance(value, str) for value in values)
    elif kind == "BOOL":
        valid = all(isinstance(value, bool) for value in values)
    elif kind in _TYPES:
        number = (int, float) if kind.startswith("FP") else int
        valid = all(isinstance(value, number) and not isinstance(value, bool) for value in values)
    else:
        raise RequestError(
            422,
            f"{tensor.name}: {kind} is not a datatype; use BYTES or one of {', '.join(_TYPES)}",
            tensor.name,
        )
    if not valid:
        raise RequestError(422, f"{tensor.name}: a value is not of the type {kind}", tensor.name)
    return values
