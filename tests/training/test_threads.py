"""Results do not depend on the number of threads, where operations are large enough for several threads to share them."""

import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from support.training import sample_set, small_data

from deep_interest.models.registry import MODELS, build_model, model_config
from deep_interest.ops.runtime import thread_pool
from deep_interest.training.loop import Fit
from deep_interest.training.parameters import TrainingOptions

WIDE = {"embedding_dim": 32, "hidden": (64, 32), "attention_hidden": (32, 16)}
KINDS = {row.path: key for key, row in reversed(MODELS.items())}  # a row of each class
ROWS = [(key, {}) for key in KINDS.values() if not MODELS[key].closed_form] + [
    ("base", {"batch_norm": True}),
    ("base", {"mlp_dropout": 0.2, "interest_product": True}),
    ("din", {"activation": "dice", "attention_activation": "dice"}),
    ("din_softmax", {"normalize": "softmax"}),
    ("dien", {"aux_weight": 1.0}),
    ("dien_infonce", {"aux_weight": 1.0, "aux_contrast": "infonce"}),
    ("bst", {"blocks": 2}),
]
SMALL = (
    "asvd",
    "lr",
    "fm",
    "user_only",
)  # their operations are below the threshold: torch's own threads alone matter


@contextmanager
def torch_threads(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def sharing(monkeypatch):
    """The threads that have worked on an operation of several partitions."""
    found, share = set(), thread_pool.parallel_for

    def watched(task, helpers):
        def noted(number):
            found.add(threading.get_ident())
            task(number)

        share(noted, helpers)

    monkeypatch.setattr(thread_pool, "parallel_for", watched)
    return found


def trained(key, options, threads, *, steps=2):
    """All parameters and buffers after some steps on large batches."""
    samples = sample_set(small_data(users=900))
    torch.manual_seed(0)
    model = build_model(key, model_config(key, options, common=WIDE), samples.store.schema)
    fit = Fit(
        label="test", model=model, train=samples, validation=samples, seed=0, state_file=Path("none"), fingerprint="",
        options=TrainingOptions(batch_size=2048, learning_rate=0.01),
    )  # fmt: skip
    model.train()
    with torch_threads(threads):
        torch.manual_seed(1)
        for rows in torch.randperm(len(samples)).split(2048)[:steps]:
            fit.train_step(rows)
    return model.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize(("key", "options"), ROWS, ids=str)
def test_a_model_trained_with_two_or_three_threads_has_the_bits_of_one(sharing, key, options):
    one = trained(key, options, 1)
    assert sharing <= {threading.get_ident()}
    for threads in (2, 3):
        sharing.clear()
        several = trained(key, options, threads)
        assert key in SMALL or len(sharing) > 1
        for name, tensor in one.items():
            assert torch.equal(tensor, several[name]), (threads, name)
