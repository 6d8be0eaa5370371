"""A training step that is interrupted leaves no gradient behind: the next step equals one that nothing came before."""

from pathlib import Path

import pytest
import torch
from support.training import sample_set, small_data

from deep_interest.models.layers import embedding_tables
from deep_interest.models.registry import build_model, model_config
from deep_interest.training.loop import Fit
from deep_interest.training.parameters import TrainingOptions

SMALL = {"embedding_dim": 8, "hidden": (16, 8)}
SAMPLES = sample_set(small_data())


def make_fit():
    torch.manual_seed(0)
    config = model_config("dien", {"aux_weight": 1.0}, common=SMALL)
    model = build_model("dien", config, SAMPLES.store.schema)
    fit = Fit(
        label="test", model=model, train=SAMPLES, validation=SAMPLES, seed=0, state_file=Path("none"), fingerprint="",
        options=TrainingOptions(batch_size=64, learning_rate=0.01),
    )  # fmt: skip
    model.train()
    return fit


def state_after_step(fit, rows):
    torch.manual_seed(1)  # the negatives
    fit.train_step(rows)
    moments = [moment for pair in fit.optimizer.state_dict()["moments"] for moment in pair]
    return [*fit.model.state_dict().values(), *moments]


def interrupt(fit, rows, error):
    """A step whose backward pass raises after the gradients of the MLP, and before those of the tables."""

    def fail(gradient):
        raise error

    handle = fit.model.attention.weight.register_hook(fail)
    with pytest.raises(type(error)):
        fit.train_step(rows)
    handle.remove()


@pytest.mark.parametrize(
    "error", [ValueError("in backward"), KeyboardInterrupt()], ids=["error", "interrupt"]
)
def test_the_step_after_an_interrupted_one_equals_a_clean_step(error):
    first, second = torch.arange(64), torch.arange(64, 128)
    interrupted, clean = make_fit(), make_fit()
    interrupt(interrupted, first, error)
    assert not interrupted.optimizer.network.gradient.any()
    assert all(table.weight.grad is None for table in embedding_tables(interrupted.model))
    states = zip(state_after_step(interrupted, second), state_after_step(clean, second), strict=True)
    assert all(torch.equal(one, other) for one, other in states)


def test_gradients_of_a_failed_optimizer_step_are_discarded(monkeypatch):
    fit, clean, rows = make_fit(), make_fit(), torch.arange(64)

    def fail(*arguments):
        raise RuntimeError("in the optimiser")

    with monkeypatch.context() as patch:
        patch.setattr(fit.optimizer.accumulator, "coalesce", fail)
        with pytest.raises(RuntimeError, match="in the optimiser"):
            fit.train_step(rows)
    states = zip(state_after_step(fit, rows), state_after_step(clean, rows), strict=True)
    assert all(torch.equal(one, other) for one, other in states)


def test_outside_a_training_step_gradients_go_to_autograd():
    fit = make_fit()
    state_after_step(fit, torch.arange(64))
    batch = SAMPLES.batch(torch.arange(32), negatives=fit.negative_fields)
    fit.model(batch).logits.sum().backward()
    assert all(table.weight.grad.is_sparse for table in embedding_tables(fit.model))
