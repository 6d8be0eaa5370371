"""A kernel computes the same bits wherever its arrays are in memory.

LLVM may version a loop, once for arrays that are far apart and once for all others: which version runs depends on
the addresses, so both have to round alike.
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

pytestmark = pytest.mark.slow

GAPS = [0, 4, 60, 200]  # bytes between two arrays
FAR = 1 << 12
ROWS = [
    ("din_dice", {"activation": "dice", "attention_activation": "dice", "normalize": "softmax"}),
    ("din", {"normalize": "softmax", "attention_activation": "prelu"}),
    *(
        ("dien", {"evolution": evolution, "aux_weight": 1.0})
        for evolution in ("augru", "agru", "aigru", "attention")
    ),
    ("dien", {"aux_weight": 1.0, "aux_contrast": "infonce"}),
    ("dien", {"aux_weight": 1.0, "aux_score": "net", "attention": "din"}),
    *((key, {}) for key in ("base", "pnn", "deepfm", "bst", "dmin")),
]


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Every kernel that a step of these models calls, with the arguments of its largest call."""
    found, data = {}, small_data(users=40)

    def recorded(kernel, *arguments, work):
        flat = list(leaves(arguments))
        sizes = [given.size for given in flat if isinstance(given, np.ndarray)]
        case = (
            kernel,
            tuple(size > 0 for size in sizes),
        )  # an empty array means that an argument is left out
        if sum(sizes) > found.get(case, (0,))[0]:
            copies = [a.copy() if isinstance(a, np.ndarray) else a for a in flat]
            found[case] = sum(sizes), (copies, arguments), parallel.partition_count(work)
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
                state_file=tmp_path_factory.mktemp("fit") / f"{number}.pt", fingerprint="", checkpoint_seconds=9,
            ).run()  # fmt: skip
    return found


def leaves(arguments):
    """The arguments, with tuples flattened."""
    for given in arguments:
        if isinstance(given, tuple):
            yield from leaves(given)
        else:
            yield given


def nested(flat, like):
    """The leaves put together as in ``like``."""
    values = [nested(flat, each) if isinstance(each, tuple) else next(flat) for each in like]
    return type(like)(*values) if hasattr(like, "_fields") else tuple(values)


def relocated(arguments, first=None, second=None, gap=0):
    """The arguments with their arrays copied far apart in one buffer, but ``second`` closely after ``first``."""
    arrays = [i for i, given in enumerate(arguments) if isinstance(given, np.ndarray)]
    order = [i for i in arrays if i not in (first, second)] + [i for i in (first, second) if i is not None]
    buffer = np.zeros(sum(arguments[i].nbytes + FAR for i in arrays) + FAR, np.uint8)
    position, moved = -buffer.ctypes.data % 64, list(arguments)
    for i in order:
        given = arguments[i]
        position += -position % (given.itemsize if i == second else 64)
        moved[i] = buffer[position : position + given.nbytes].view(given.dtype).reshape(given.shape)
        moved[i][...] = given
        position += given.nbytes + (gap if i == first else FAR)
    return moved


def outputs(kernel, partitions, moved, like):
    for partition in range(partitions):
        kernel(*nested(iter(moved), like), partition, partitions)
    return [given.tobytes() for given in moved if isinstance(given, np.ndarray)]


def test_kernels_compute_the_same_bits_wherever_arrays_are(calls):
    assert len(calls) > 25
    differ = set()
    for (kernel, _), (_, (arguments, like), partitions) in calls.items():
        expected = outputs(kernel, partitions, relocated(arguments), like)
        arrays = [i for i, given in enumerate(arguments) if isinstance(given, np.ndarray)]
        for (first, second), gap in product(permutations(arrays, 2), GAPS):
            if outputs(kernel, partitions, relocated(arguments, first, second, gap), like) != expected:
                differ.add(f"{kernel.__module__}.{kernel.__name__}: {gap} bytes from {first} to {second}")
    assert not differ
