import copy
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.training import sample_set, small_data

from deep_interest.errors import InputError
from deep_interest.models.embeddings import embedding_tables
from deep_interest.models.registry import build_model, model_config
from deep_interest.training import loop
from deep_interest.training.loop import DivergedError, Fit
from deep_interest.training.occurrences import occurrences_of
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.unknown import UnknownRows

ROWS = {"din_dice": {"activation": "dice", "attention_activation": "dice"}, "dien": {"aux_weight": 1.0}}
SMALL = {"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (8, 4)}


def make_fit(
    folder: Path, options=None, *, key="din_dice", seed=3, checkpoint_seconds=60.0, data=None, name="state.pt"
) -> Fit:
    data = data or small_data()
    torch.manual_seed(seed)
    train = sample_set(data)
    model = build_model(key, model_config(key, ROWS.get(key, {}), common=SMALL), train.store.schema)
    occurrences = occurrences_of(embedding_tables(model), train)
    settings = {"batch_size": 16, "epochs": 4, "patience": 9, "learning_rate": 0.01} | (options or {})
    return Fit(
        label="test", model=model, train=train, validation=sample_set(data, "validation"), options=TrainingOptions(**settings),
        seed=seed, state_file=folder / name, fingerprint="this fit", checkpoint_seconds=checkpoint_seconds,
        occurrences=occurrences, unknown=UnknownRows.of(model, occurrences),
    )  # fmt: skip


def parameters(fit: Fit) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in fit.model.state_dict().items()}


def assert_same(one: Fit, other: Fit) -> None:
    for name, values in parameters(one).items():
        np.testing.assert_array_equal(values, parameters(other)[name], err_msg=name)
    drop = lambda rows: [{k: v for k, v in row.items() if k != "seconds"} for row in rows]  # noqa: E731
    assert drop(one.progress.history) == drop(other.progress.history)


@pytest.mark.parametrize("shuffle", ["samples", "requests"])
def test_an_epoch_takes_every_sample_once_in_an_order_of_its_own(tmp_path, shuffle):
    fit = make_fit(tmp_path, {"shuffle": shuffle})
    first, second = fit._order(0)[0 : len(fit.train)], fit._order(1)[0 : len(fit.train)]
    assert first.tolist() != second.tolist()
    for order in (first, second):
        assert sorted(order.tolist()) == list(range(len(fit.train)))
        requests = fit.train.requests[order]
        runs = 1 + int((requests.diff() != 0).sum())
        assert (runs == len(requests.unique())) == (shuffle == "requests")  # each request in one piece


class KilledError(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("din_dice", {}),
        ("din_dice", {"optimizer": "sgd", "decay_rate": 0.5, "decay_steps": 5}),
        ("din_dice", {"evaluations_per_epoch": 3, "plateau_factor": 0.5, "l2": 0.01}),
        ("dien", {"mba": 1.0}),  # draws items
        ("base", {"behavior_dropout": 0.5}),  # drops behaviours
        ("dien", {"shuffle": "requests"}),  # histories are shared
    ],
)
@pytest.mark.parametrize("die_at", [1, 14, 27])
def test_a_fit_that_dies_at_any_step_resumes_to_the_same_parameters(
    tmp_path, key, options, die_at, monkeypatch
):
    undisturbed = make_fit(tmp_path, options, key=key, name="undisturbed.pt")
    undisturbed.run()
    victim, steps = make_fit(tmp_path, options, key=key, checkpoint_seconds=0.0), 0
    whole_step = victim.train_step

    def die(rows):
        nonlocal steps
        steps += 1
        if steps > die_at:
            raise KilledError
        return whole_step(rows)

    monkeypatch.setattr(victim, "train_step", die)
    with pytest.raises(KilledError):
        victim.run()
    resumed = make_fit(tmp_path, options, key=key)
    resumed.run()
    assert_same(resumed, undisturbed)
    assert resumed.progress.total_steps == undisturbed.progress.total_steps


SCRIPT = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from training.test_loop import make_fit
fit = make_fit(Path({folder!r}), {{"epochs": 12}}, checkpoint_seconds=0.0)
step = fit.train_step
def slow(rows):
    time.sleep(0.005)
    return step(rows)
fit.train_step = slow
print("ready", flush=True)
fit.run()
"""


def wait_for_change(path: Path) -> None:
    """Wait until the file is written again, five minutes at most: the process may have to compile its kernels first."""
    before, until = path.stat().st_mtime_ns if path.exists() else 0, time.monotonic() + 300
    while not path.exists() or path.stat().st_mtime_ns == before:
        assert time.monotonic() < until, f"{path} was not written"
        time.sleep(0.01)


@pytest.mark.slow
def test_a_process_killed_with_sigkill_resumes_to_the_same_parameters(tmp_path):
    tests = str(Path(__file__).parents[1])
    script = SCRIPT.format(tests=tests, folder=str(tmp_path))
    environment = os.environ | {"PYTHONPATH": tests}
    for wait in (0.15, 0.3):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
        process.stdout.readline()
        wait_for_change(tmp_path / "state.pt")
        time.sleep(wait)
        assert process.poll() is None, "the process must still be training when it is killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
    resumed = make_fit(tmp_path, {"epochs": 12})
    resumed.run()
    undisturbed = make_fit(tmp_path, {"epochs": 12}, name="undisturbed.pt")
    undisturbed.run()
    assert_same(resumed, undisturbed)


@pytest.mark.slow
def test_a_finished_fit_is_not_trained_again(tmp_path, monkeypatch):
    first = make_fit(tmp_path)
    first.run()
    again = make_fit(tmp_path)
    monkeypatch.setattr(again, "train_step", lambda rows: pytest.fail("a finished fit was trained"))
    again.run()
    assert_same(again, first)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["other fingerprint", "cut in half"])
def test_a_foreign_or_damaged_state_is_not_resumed(tmp_path, damage):
    first = make_fit(tmp_path)
    first.run()
    again = make_fit(tmp_path)
    if damage == "cut in half":
        whole = (tmp_path / "state.pt").read_bytes()
        (tmp_path / "state.pt").write_bytes(whole[: len(whole) // 2])
    else:
        again.fingerprint = "another fit"
    again.run()
    assert again.progress.seconds > 0
    assert_same(again, first)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_parameters_and_another_seed_others(tmp_path):
    one, two, other = (make_fit(tmp_path, seed=seed, name=f"{k}.pt") for k, seed in enumerate([3, 3, 4]))
    for fit in (one, two, other):
        fit.run()
    assert_same(one, two)
    assert any((parameters(one)[name] != values).any() for name, values in parameters(other).items())


@pytest.mark.slow
def test_training_learns_what_the_data_plants(tmp_path):
    fit = make_fit(tmp_path, {"epochs": 30, "selection": "auc"}, data=small_data(users=400))
    fit.run()
    losses = [row["train_loss"] for row in fit.progress.history]
    assert losses[-1] < 0.9 * losses[0]
    assert fit.progress.best > 0.7


@pytest.mark.slow
def test_the_best_evaluation_is_taken_and_patience_ends_the_fit(tmp_path, monkeypatch):
    fit = make_fit(tmp_path, {"epochs": 50, "patience": 2, "plateau_factor": 0.5, "learning_rate": 0.01})
    values, states = iter([0.6, 0.7, 0.65, 0.7, 0.9]), []

    def score(*_arguments, **_options):
        states.append({name: tensor.clone() for name, tensor in fit.model.state_dict().items()})
        return 0.5, next(values)

    monkeypatch.setattr(loop, "validate", score)
    fit.run()
    assert len(fit.progress.history) == 4  # 0.7 again is not an improvement
    for name, tensor in fit.model.state_dict().items():
        torch.testing.assert_close(tensor, states[1][name])
    assert [row["learning_rate"] for row in fit.progress.history] == [0.01, 0.01, 0.01, 0.005]


@pytest.mark.slow
def test_without_validation_samples_the_last_epoch_is_taken(tmp_path):
    fit = make_fit(tmp_path)
    fit.validation = sample_set(small_data(), "nothing")
    fit.run()
    assert len(fit.progress.history) == 4
    assert "validation_gauc" not in fit.progress.history[0]
    again = make_fit(tmp_path)
    again.run()
    for name, values in parameters(fit).items():
        np.testing.assert_array_equal(values, parameters(again)[name])


@pytest.mark.parametrize(
    ("options", "step", "epoch", "expected"),
    [
        ({"decay_rate": 0.1, "decay_steps": 336_000}, 335_999, 8, 1.0),
        ({"decay_rate": 0.1, "decay_steps": 336_000}, 336_000, 8, 0.1),
        ({"decay_rate": 0.5}, 99, 3, 0.125),
        ({}, 99, 3, 1.0),
    ],
)
def test_the_learning_rate_decays_by_steps_or_by_epochs(tmp_path, options, step, epoch, expected):
    fit = make_fit(tmp_path, {"learning_rate": 1.0, **options})
    fit.progress.total_steps, fit.progress.epoch = step, epoch
    assert math.isclose(fit.learning_rate(), expected)


@pytest.mark.slow
def test_a_state_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    fit = make_fit(tmp_path)
    fit.run()
    before = (tmp_path / "state.pt").read_bytes()

    whole_save = torch.save

    def full_disk(state, file):
        file.write(b"half")
        with open("/dev/full", "wb") as full:
            whole_save(state, full)

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(ValueError, match="the disk is full"):
        fit._save(force=True)
    assert (tmp_path / "state.pt").read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == [".state.pt.sha256", "state.pt"]


def test_scores_that_are_not_finite_end_the_fit_as_diverged(tmp_path):
    """One step can leave finite parameters whose scores are none."""
    with pytest.raises(DivergedError, match="parameters or scores are not finite"):
        make_fit(tmp_path, {"optimizer": "sgd", "learning_rate": 1e25, "batch_size": 1000}, key="base").run()


@pytest.mark.slow
def test_a_selection_that_is_not_defined_is_named(tmp_path):
    data = small_data()
    data.samples.loc[data.samples["split"] == "validation", "label"] = 1
    fit = make_fit(tmp_path, {"selection": "auc"}, data=data)
    with pytest.raises(
        InputError, match="auc is undefined because all labels of the 72 validation samples are equal"
    ):
        fit.run()
    fit = make_fit(tmp_path, {"selection": "logloss"}, data=data)
    assert math.isfinite(fit.run().best)


def with_predictable_clicks(data):
    """The data where each user clicks the items one after the other, so that the next behaviour can be learnt."""
    offsets, category = data.log.offsets, data.features.items["category"]
    steps = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    users = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    item_ids = (1 + (7 * users + steps) % (len(category) - 1)).astype(np.int32)
    return replace(data, log=replace(data.log, fields={"item_id": item_ids, "category": category[item_ids]}))


@pytest.mark.parametrize("key", ["dien", "dmin"])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 2.0])
def test_a_step_follows_the_target_loss_plus_alpha_times_the_auxiliary_loss(
    tmp_path, monkeypatch, key, alpha
):
    monkeypatch.setitem(ROWS, key, {"aux_weight": alpha, "embedding_std": 0.5})
    fit = make_fit(tmp_path, {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": 24}, key=key)
    before, twin, rows = parameters(fit), copy.deepcopy(fit.model).double(), torch.arange(24)
    torch.manual_seed(5)
    batch = fit.train.batch(rows, negatives=["item_id", "category"] if alpha else ())
    output = twin(batch)
    target = F.binary_cross_entropy_with_logits(output.logits, batch.labels.double())
    auxiliary = output.auxiliary_loss if alpha else torch.zeros(())
    names, weights = zip(*twin.named_parameters(), strict=True)
    of_target = gradients_of(target, weights)
    of_auxiliary = gradients_of(auxiliary, weights) if alpha else [np.zeros(1)] * len(weights)
    torch.manual_seed(5)
    logged = fit.train_step(rows)
    assert logged[0].item() == pytest.approx(target.item(), rel=1e-5)
    assert (logged[1].item() if alpha else 0.0) == pytest.approx(auxiliary.item(), rel=1e-5)
    after = parameters(fit)
    for name, one, other in zip(names, of_target, of_auxiliary, strict=True):
        np.testing.assert_allclose(
            after[name], before[name] - 0.1 * (one + other), rtol=1e-4, atol=1e-5, err_msg=name
        )
    maker = "extractor.input_weight" if key == "dien" else "refiner.heads"
    makers = [k for k, name in enumerate(names) if name.startswith(maker)]
    assert makers
    for k in makers:  # the auxiliary loss moves what makes the states, by more than the tolerance
        assert np.abs(0.1 * of_auxiliary[k]).max() > (1e-3 if alpha else -1)


def gradients_of(loss, weights):
    gradients = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
    return [
        np.zeros(tuple(w.shape)) if g is None else g.to_dense().numpy()
        for g, w in zip(gradients, weights, strict=True)
    ]


@pytest.mark.slow
def test_training_lowers_the_auxiliary_loss_that_it_logs(tmp_path):
    data = with_predictable_clicks(small_data())
    fit = make_fit(tmp_path, {"epochs": 6, "patience": 99, "learning_rate": 0.05}, key="dien", data=data)
    fit.run()
    losses = [row["auxiliary_loss"] for row in fit.progress.history]
    assert losses[0] == pytest.approx(2 * math.log(2), rel=0.2)  # an untrained state knows nothing
    assert losses[-1] < 0.6 * losses[0]
