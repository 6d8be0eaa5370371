"""What a fit counts, logs and shows: evaluations within an epoch, a row for each, the log line, the progress bar."""

import logging
import math
import time

import numpy as np
import pytest
import torch
from numba.core import event
from support.training import sample_set, small_data

from deep_interest.evaluation.metrics import auc, gauc, logloss
from deep_interest.models.registry import build_model, model_config
from deep_interest.training import loop
from deep_interest.training.evaluation import predict, validate, watch
from deep_interest.training.log_lines import format_rate
from deep_interest.training.loop import DivergedError, Fit
from deep_interest.training.parameters import TrainingOptions

SMALL = {"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (8, 4)}


def make_fit(folder, options=None, *, key="base", aux=0.0, **more):
    train, validation = (sample_set(small_data(), split) for split in ("train", "validation"))
    torch.manual_seed(0)
    model = build_model(
        key, model_config(key, {"aux_weight": aux} if aux else {}, common=SMALL), train.store.schema
    )
    settings = TrainingOptions(**({"batch_size": 100, "epochs": 2, "patience": 9} | (options or {})))
    return Fit(
        label="shop.din, seed 4", model=model, train=train, validation=validation, options=settings, seed=4,
        state_file=folder / "state.pt", fingerprint="f", **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("size", "evaluations", "expected"),
    [(100, 1, {3}), (100, 2, {2, 3}), (30, 3, {3, 5, 8}), (1, 4, {54, 108, 162, 216}), (100, 50, {1, 2, 3}), (216, 5, {1})],
)  # fmt: skip
def test_evaluations_are_evenly_spaced_within_an_epoch(tmp_path, size, evaluations, expected):
    fit = make_fit(tmp_path, {"batch_size": size, "evaluations_per_epoch": evaluations})
    assert len(fit.train) == 216
    assert fit.steps == math.ceil(216 / size)
    assert {step for step in fit.evaluation_steps if step} == expected


def test_every_evaluation_is_a_row_with_its_place_and_what_came_before_it(tmp_path):
    fit = make_fit(tmp_path, {"evaluations_per_epoch": 2, "decay_rate": 0.5, "learning_rate": 0.01})
    losses, step = [], fit.train_step

    def noted(rows):
        found = step(rows)
        losses.append((found[0].item(), len(rows)))
        return found

    fit.train_step = noted
    rows = fit.run().history
    assert [list(row) for row in rows] == [
        ["epoch", "learning_rate", "train_loss", "samples", "seconds", "validation_loss", "validation_gauc"]
    ] * 4
    assert [row["epoch"] for row in rows] == pytest.approx([2 / 3, 1, 1 + 2 / 3, 2])
    assert [row["samples"] for row in rows] == [200, 216, 416, 432]
    assert [row["learning_rate"] for row in rows] == [0.01, 0.01, 0.005, 0.005]
    assert [size for _, size in losses] == [100, 100, 16] * 2
    means = [(losses[0][0] + losses[1][0]) / 2, losses[2][0], (losses[3][0] + losses[4][0]) / 2, losses[5][0]]
    assert [row["train_loss"] for row in rows] == pytest.approx(means, rel=1e-6)
    seconds = [row["seconds"] for row in rows]
    assert 0 < seconds[0] < seconds[1] < seconds[2] < seconds[3] < 600


def test_the_row_of_a_model_with_an_auxiliary_loss_and_of_a_watched_test_set(tmp_path):
    test = sample_set(small_data(), "test")
    fit = make_fit(tmp_path, {"epochs": 1, "selection": "logloss"}, key="dien", aux=0.5, watched=test)
    auxiliary, step = [], fit.train_step

    def noted(rows):
        found = step(rows)
        auxiliary.append(found[1].item() * len(rows))
        return found

    fit.train_step = noted
    (row,) = fit.run().history
    assert row["auxiliary_loss"] == pytest.approx(sum(auxiliary) / 216, rel=1e-6)
    assert row["validation_logloss"] == row["validation_loss"] > 0
    figures = watch(predict(fit.model, test, batch_size=7), test)
    assert {name: row[f"test_{name}"] for name in ("loss", "auc", "gauc")} == pytest.approx(figures)
    assert set(row) == {
        "epoch", "learning_rate", "train_loss", "samples", "seconds", "auxiliary_loss", "validation_loss", "validation_logloss",
        "test_loss", "test_auc", "test_gauc",
    }  # fmt: skip


def test_the_figures_of_a_split_are_those_of_its_scores(tmp_path):
    fit, samples = make_fit(tmp_path), sample_set(small_data(), "test")
    scores = predict(fit.model, samples, batch_size=10)
    assert not fit.model.training
    assert scores.dtype == np.float32
    with torch.no_grad():
        whole = torch.sigmoid(fit.model(samples.batch(torch.arange(len(samples)))).logits)
    np.testing.assert_allclose(scores, whole, rtol=1e-5)
    labels, users = samples.labels.numpy(), samples.user.numpy()
    expected = {
        "loss": logloss(labels, scores),
        "auc": auc(labels, scores),
        "gauc": gauc(users, labels, scores).value,
    }
    assert watch(scores, samples) == pytest.approx(expected)
    for selection, value in (
        ("auc", expected["auc"]),
        ("gauc", expected["gauc"]),
        ("logloss", -expected["loss"]),
    ):
        assert validate(scores, samples, selection=selection) == pytest.approx((expected["loss"], value))


def test_after_each_evaluation_the_caller_gets_all_rows_so_far(tmp_path):
    lengths = []
    fit = make_fit(tmp_path, {"epochs": 3}, after_evaluation=lambda history: lengths.append(len(history)))
    fit.run()
    assert lengths == [1, 2, 3]


def test_the_log_line_shows_metrics_and_speed_with_units(tmp_path, caplog):
    fit = make_fit(tmp_path)
    fit.progress.samples, fit.progress.seconds = 5000, 2.0
    with caplog.at_level(logging.INFO, logger="deep_interest"):
        fit._report(
            {"epoch": 1.5, "learning_rate": 0.1, "train_loss": 0.25, "validation_gauc": 0.5, "samples": 7}
        )
        fit.progress.seconds = 0.0
        fit._report({"epoch": 2.0})
    assert [record.getMessage() for record in caplog.records] == [
        "shop.din, seed 4, epoch 1.5 of 2 · loss 0.250 · val GAUC 0.500 · 2.5k samples/s",
        "shop.din, seed 4, epoch 2 of 2 · 5e+06M samples/s",
    ]


@pytest.mark.parametrize(
    ("rate", "text"), [(999, "999"), (1000, "1k"), (18_940, "18.9k"), (1_250_000, "1.25M")]
)
def test_rates_have_three_digits_and_a_unit(rate, text):
    assert format_rate(rate) == text


@pytest.mark.slow
def test_the_speed_of_a_first_fit_does_not_contain_compilation(tmp_path, caplog):
    fit = make_fit(tmp_path, {"epochs": 1})
    step = fit.train_step

    def compile_first(rows):
        if fit.progress.step == 0:
            with event.trigger_event("numba:compiler_lock"), event.trigger_event("numba:compile"):
                time.sleep(1.0)
        return step(rows)

    fit.train_step = compile_first
    start = time.perf_counter()
    with caplog.at_level(logging.INFO, logger="deep_interest"):
        fit.run()
    whole = time.perf_counter() - start
    assert whole > 1
    assert 0 < fit.progress.seconds <= whole - 1
    assert caplog.messages[0] == "shop.din: compiling kernels for the CPU, once per machine …"
    assert len(caplog.messages) == 2  # it is said once


def test_warming_up_changes_no_bit_of_the_result(tmp_path, monkeypatch):
    warm = make_fit(tmp_path / "warm", {"behavior_dropout": 0.5}, key="dien", aux=0.5)
    warm.run()
    monkeypatch.setattr(loop, "_import_autograd", lambda device: None)
    cold = make_fit(tmp_path / "cold", {"behavior_dropout": 0.5}, key="dien", aux=0.5)
    cold.run()
    for name, tensor in warm.model.state_dict().items():
        assert torch.equal(tensor, cold.model.state_dict()[name]), name


class Bar:
    """The progress bar as the loop uses it; each of its updates is shown."""

    def __init__(self, **options):
        self.options, self.done, self.shown = options, [], []
        BARS.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.closed = True

    def update(self, number):
        self.done.append(number)
        return True

    def set_postfix_str(self, text, refresh=True):
        self.shown.append((text, refresh))


BARS: list[Bar] = []


def test_the_progress_bar_counts_samples_epoch_by_epoch(tmp_path, monkeypatch):
    BARS.clear()
    monkeypatch.setattr(loop, "tqdm", Bar)
    fit, losses = make_fit(tmp_path), []
    step = fit.train_step

    def noted(rows):
        losses.append(step(rows))
        return losses[-1]

    fit.train_step = noted
    fit.run()
    first, second = BARS
    assert first.options == {
        "total": 216, "initial": 0, "unit": " samples", "unit_scale": True, "disable": None, "leave": False,
        "desc": "shop.din, seed 4, epoch 1 of 2",
    }  # fmt: skip
    assert second.options["desc"] == "shop.din, seed 4, epoch 2 of 2"
    assert first.done == second.done == [100, 100, 16]
    assert [text for text, _ in first.shown] == [f"loss {loss.item():.4f}" for loss, _ in losses[:3]]
    assert not any(refresh for _, refresh in first.shown)
    assert first.closed


def test_the_bar_of_a_resumed_fit_begins_where_it_was(tmp_path, monkeypatch):
    BARS.clear()
    fit = make_fit(tmp_path)
    fit.progress.step = 2
    monkeypatch.setattr(loop, "tqdm", Bar)
    fit._last_save = 0.0
    fit._epoch()
    assert BARS[0].options["initial"] == 200
    assert BARS[0].done == [16]
    assert (fit.progress.epoch, fit.progress.step) == (1, 0)


@pytest.mark.parametrize("broken", ["loss", "parameter"])
def test_a_fit_whose_numbers_are_not_finite_has_diverged(tmp_path, broken):
    fit = make_fit(tmp_path)
    fit._check_finite(None)
    fit._check_finite(np.zeros(3))
    if broken == "loss":
        fit.progress.loss_sum = math.inf
    else:
        list(fit.model.parameters())[-1].data.view(-1)[0] = math.nan
    with pytest.raises(DivergedError, match=r"^shop\.din, seed 4: training diverged in epoch 1 "):
        fit._check_finite(np.zeros(3))


def test_the_order_of_an_epoch_comes_from_the_seed_and_the_epoch_alone(tmp_path):
    fit = make_fit(tmp_path)
    for epoch in (0, 3):
        generator = torch.Generator().manual_seed(4 * 1_000_003 + epoch)
        assert torch.equal(fit._order(epoch)[0:216], torch.randperm(216, generator=generator))


def test_a_state_is_saved_when_it_is_time_and_at_the_end(tmp_path, monkeypatch):
    saved, now = [], [0.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        loop,
        "save_state",
        lambda file, progress, tensors, fingerprint: saved.append((progress.total_steps, sorted(tensors))),
    )
    fit = make_fit(tmp_path, checkpoint_seconds=10.0)
    step = fit.train_step

    def slow(rows):
        now[0] += 5.0  # after the second step it is 10 s, after the third 15 s
        return step(rows)

    fit.train_step = slow
    fit.run()
    running = ["best_model", "model", "optimizer", "random"]
    assert saved == [(3, running), (6, ["best_model"])]
    saved.clear()
    keeping = make_fit(tmp_path, {"epochs": 1}, keep_optimizer=True)
    keeping.run()
    assert saved == [(3, ["best_model", "optimizer"])]
