"""A scikit-learn estimator as a tensor of bytes in a checkpoint, written and read by skops, without pickle."""

import io
import re
import zipfile
from typing import Any

import torch
from torch import Tensor

from deep_interest.errors import InputError

_TRUSTED = ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"]
_SCHEMA = "schema.json"


def estimator_to_bytes(estimator: Any) -> Tensor:
    """Serialise an estimator, ``(bytes,)`` uint8; equal estimators have equal bytes.

    skops names objects by their addresses in memory and files have the time of writing; both are replaced.
    """
    import skops.io  # noqa: PLC0415

    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(estimator))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    schema = files.pop(_SCHEMA).decode()
    addresses = list(dict.fromkeys(re.findall(r'"__id__": (\d+)', schema)))
    names = {address: str(index) for index, address in enumerate(addresses)}
    pattern = re.compile(r"\b\d{6,}\b")
    renamed = {pattern.sub(lambda m: names.get(m[0], m[0]), name): content for name, content in files.items()}
    renamed[_SCHEMA] = pattern.sub(lambda m: names.get(m[0], m[0]), schema).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in sorted(renamed):
            archive.writestr(zipfile.ZipInfo(name), renamed[name], zipfile.ZIP_DEFLATED)
    return torch.frombuffer(bytearray(stream.getvalue()), dtype=torch.uint8)


def estimator_from_bytes(state: Tensor) -> Any:
    """Return the estimator of `estimator_to_bytes`.

    Only classes of scikit-learn that gradient boosting consists of are created; nothing in the bytes is executed.

    Raises:
        InputError: the bytes contain something else, or were written by an incompatible version of scikit-learn.
    """
    import skops.io  # noqa: PLC0415

    try:
        return skops.io.loads(state.cpu().numpy().tobytes(), trusted=_TRUSTED)
    except Exception as error:
        raise InputError(
            f"boosted: the trees of the checkpoint cannot be read ({error}); train the model again"
        ) from error
