"""Within an epoch the host never waits for the device: no operation of a step has a result whose size or value the host must ask for.

Run on the CPU in float64, where all operations are written as for a GPU; GRUs have a kernel there in place of their plain loop.
"""

from pathlib import Path

import pytest
import torch
from support.training import sample_set, small_data, with_tags
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from deep_interest.models.embeddings import embedding_tables
from deep_interest.models.registry import build_model, model_config
from deep_interest.ops import gru
from deep_interest.ops.runtime import host_copies
from deep_interest.training.loop import Fit
from deep_interest.training.occurrences import occurrences_of
from deep_interest.training.parameters import TrainingOptions

ATEN = torch.ops.aten
ASKING = {
    ATEN.nonzero.default, ATEN._local_scalar_dense.default, ATEN._coalesce.default, ATEN.masked_select.default,
    ATEN._unique2.default, ATEN.equal.default, ATEN.bincount.default,
}  # fmt: skip
SMALL = {"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (8, 4)}
SOFTMAX = {"normalize": "softmax", "difference": True}
ROWS = [
    ("lr", {}), ("fm", {}), ("base", {}), ("wide_deep", {}), ("pnn", {}), ("deepfm", {}), ("din", {}), ("din", SOFTMAX | {"positions": 5}),
    ("din_dice", {"activation": "dice", "attention_activation": "dice"}), ("gru_attention", {"evolution": "attention"}),
    ("gru_aigru", {"evolution": "aigru"}), ("gru_agru", {"evolution": "agru"}), ("gru_augru", {}), ("dien", {"aux_weight": 1.0}),
    ("dien_infonce", {"aux_weight": 1.0, "aux_contrast": "infonce"}), ("lstm", {}), ("bst", {"blocks": 2}), ("dmin", {}),
]  # fmt: skip
SETS = [
    pytest.param(small_data(), False, False, id="one-hot"),
    pytest.param(small_data(), True, False, id="shared"),
    pytest.param(with_tags(small_data()), True, True, id="multi-hot-shared-dropout"),
]


def asking_in(profile):
    """The operations that ask, those within others too, but not within what is excused."""

    def is_excused(event):
        return event is not None and (event.name == "excused" or is_excused(event.cpu_parent))

    names = {operation._schema.name for operation in ASKING}
    return {event.name for event in profile.events() if event.name in names and not is_excused(event)}


class NobodyWaits(TorchDispatchMode):
    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        unsized = operation is ATEN.repeat_interleave.Tensor and kwargs.get("output_size") is None
        masked = operation in (ATEN.index.Tensor, ATEN._index_put_impl_.default) and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        assert not unsized and not masked, operation
        return operation(*args, **kwargs)


def waiting(tensor):
    raise AssertionError("the host asks the device")


def excused(loop):
    def plain(*arguments):
        with _disable_current_modes(), record_function("excused"):
            return loop(*arguments)

    return plain


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(("data", "shared", "dropout"), SETS)
@pytest.mark.parametrize(("key", "options"), ROWS)
def test_a_step_asks_the_device_nothing(monkeypatch, key, options, data, shared, dropout):
    monkeypatch.setattr(gru, "plain_gru", excused(gru.plain_gru))
    train = sample_set(data)
    torch.manual_seed(0)
    model = build_model(key, model_config(key, options, common=SMALL), train.store.schema).double()
    object.__setattr__(train, "labels", train.labels.double())
    fit = Fit(
        label="test", model=model, train=train, validation=train, seed=0, state_file=Path("none"), fingerprint="",
        options=TrainingOptions(
            batch_size=16, l2=0.1, mba=0.1, difacto=0.1, gradient_norm=1.0, behavior_dropout=0.2 * dropout
        ),
        occurrences=occurrences_of(embedding_tables(model), train),
    )  # fmt: skip
    monkeypatch.setattr(host_copies, "synchronize", waiting)
    model.train()
    requests = train.requests
    order = requests.argsort(stable=True)
    if not shared:
        order = order[requests[order].diff(prepend=torch.tensor([-1])) > 0]  # one sample of each request
    first, *others = order[:48].split(16)
    fit.train_step(first)  # what the store finds out once
    for rows in others:
        with profile(activities=[ProfilerActivity.CPU]) as inside, NobodyWaits():
            fit.train_step(rows)
        assert not asking_in(inside)
    assert (train.batch(order[:16]).owner is not None) == shared
