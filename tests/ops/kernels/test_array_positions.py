"""A compiled loop finds the same bits wherever its arrays lie.

A compiler may make two copies of a loop, one for arrays that are far from each other and one for all others: which of them
runs depends on where the system found room, so both have to round alike.
"""

import pkgutil
from importlib import import_module
from itertools import permutations, product

import numpy as np
import pytest
import torch
from support.training import sample_set, small_data

from deep_interest import ops
from deep_interest.models.registry import build_model, model_config
from deep_interest.ops.runtime import parallel
from deep_interest.training.loop import Fit
from deep_interest.training.parameters import TrainingOptions

GAPS = [0, 4, 60, 200]  # bytes between two arrays
FAR = 1 << 12
ROWS = [
    ("din_dice", {"activation": "dice", "attention_activation": "dice", "normalize": "softmax"}),
    ("din", {"normalize": "softmax", "attention_activation": "prelu"}),
    *(("dien", {"evolution": way, "aux_weight": 1.0}) for way in ("augru", "agru", "aigru", "attention")),
    ("dien", {"aux_weight": 1.0, "aux_contrast": "infonce"}),
    ("dien", {"aux_weight": 1.0, "aux_score": "net", "attention": "din"}),
    *((key, {}) for key in ("base", "pnn", "deepfm", "bst", "dmin")),
]


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Every loop that a step of these rows runs, with the arguments of its largest call."""
    found, data = {}, small_data(users=40)

    def recorded(kernel, *arguments, work):
        flat = list(leaves(arguments))
        sizes = [given.size for given in flat if isinstance(given, np.ndarray)]
        way = kernel, tuple(size > 0 for size in sizes)  # an empty array stands for something left out
        if sum(sizes) > found.get(way, (0,))[0]:
            given = [a.copy() if isinstance(a, np.ndarray) else a for a in flat]
            found[way] = sum(sizes), (given, arguments), parallel.partition_count(work)
        run_kernel(kernel, *arguments, work=work)

    run_kernel = parallel.run_kernel
    with pytest.MonkeyPatch.context() as patch:
        for module in pkgutil.iter_modules(ops.__path__, f"{ops.__name__}."):
            if hasattr(import_module(module.name), "run_kernel"):
                patch.setattr(f"{module.name}.run_kernel", recorded)
        for number, (key, options) in enumerate(ROWS):
            torch.manual_seed(0)
            train = sample_set(data)
            config = model_config(key, options, common={"embedding_dim": 18, "hidden": (24, 10)})
            model = build_model(key, config, train.store.schema)
            Fit(
                label="test", model=model, train=train, validation=sample_set(data, "validation"),
                options=TrainingOptions(batch_size=len(train), epochs=1), seed=0,
                state_file=tmp_path_factory.mktemp("fit") / f"{number}.pt", fingerprint="this fit", checkpoint_seconds=9,
            ).run()  # fmt: skip
    return found


def leaves(arguments):
    """The arguments with the parts of tuples in their place."""
    for given in arguments:
        if isinstance(given, tuple):
            yield from leaves(given)
        else:
            yield given


def nested(flat, like):
    """The leaves of ``like`` put together as there."""
    return tuple(nested(flat, given) if isinstance(given, tuple) else next(flat) for given in like)


def laid(arguments, first=None, second=None, gap=0):
    """The arguments with their arrays copied into one room, far from each other; but ``second`` lies close behind ``first``."""
    arrays = [i for i, given in enumerate(arguments) if isinstance(given, np.ndarray)]
    order = [i for i in arrays if i not in (first, second)] + [i for i in (first, second) if i is not None]
    room = np.zeros(sum(arguments[i].nbytes + FAR for i in arrays) + FAR, np.uint8)
    place, placed = -room.ctypes.data % 64, list(arguments)
    for i in order:
        given = arguments[i]
        place += -place % (given.itemsize if i == second else 64)
        placed[i] = room[place : place + given.nbytes].view(given.dtype).reshape(given.shape)
        placed[i][...] = given
        place += given.nbytes + (gap if i == first else FAR)
    return placed


def done(kernel, parts, placed, like):
    for part in range(parts):
        kernel(*nested(iter(placed), like), part, parts)
    return [given.tobytes() for given in placed if isinstance(given, np.ndarray)]


def test_every_loop_finds_the_same_wherever_its_arrays_lie(calls):
    assert len(calls) > 25
    differ = set()
    for (kernel, _), (_, (arguments, like), parts) in calls.items():
        expected = done(kernel, parts, laid(arguments), like)
        arrays = [i for i, given in enumerate(arguments) if isinstance(given, np.ndarray)]
        for (first, second), gap in product(permutations(arrays, 2), GAPS):
            if done(kernel, parts, laid(arguments, first, second, gap), like) != expected:
                differ.add(f"{kernel.__module__}.{kernel.__name__}: {gap} bytes from {first} to {second}")
    assert not differ
