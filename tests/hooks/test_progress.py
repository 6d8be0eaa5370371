"""Log lines of a run that trains several models."""

import logging

import pytest
from kedro.pipeline import Node, Pipeline

from deep_interest.hooks import progress
from deep_interest.hooks.progress import ProgressHooks
from deep_interest.training.log_lines import format_duration, log_compilation, log_evaluation


def training_node(experiment):
    return Node(lambda: None, None, [f"{experiment}.checkpoint", f"{experiment}.settings"], name=experiment)


def log_line(caplog, experiment):
    """Return the shown line of an evaluation."""
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="deep_interest"):
        log_evaluation(
            f"{experiment}, seed 1", {"epoch": 2.0, "train_loss": 0.49, "validation_gauc": 0.68}, epochs=3, samples_per_second=92_100
        )  # fmt: skip
    return caplog.messages[0]


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_line_says_which_of_the_runs_models_it_is_and_what_is_left(caplog, clock):
    names = ["simulated.base", "simulated.dien", "simulated.din", "simulated.lr", "simulated.popularity"]
    nodes = [training_node(name) for name in names]
    hooks = ProgressHooks()
    hooks.before_pipeline_run(Pipeline(nodes))
    try:
        hooks.before_node_run(nodes[0])
        line = "seed 1, epoch 2 of 3 · loss 0.490 · val GAUC 0.680 · 92.1k samples/s"
        assert log_line(caplog, "simulated.base") == f"base (3 of 5), {line}"
        clock[0] += 10
        hooks.after_node_run(nodes[0])
        hooks.before_node_run(nodes[1])
        assert log_line(caplog, "simulated.dien") == f"dien (5 of 5), {line}"
        clock[0] += 60
        hooks.after_node_run(nodes[1])  # 6 units of time in 60 s
        hooks.before_node_run(nodes[2])
        assert log_line(caplog, "simulated.din") == f"din (4 of 5), {line} · about 20 s of training left"
        clock[0] += 8
        assert log_line(caplog, "simulated.din").endswith("about 10 s of training left")
        with caplog.at_level(logging.INFO, logger="deep_interest"):
            log_compilation("simulated.din, seed 1")
        assert caplog.messages[-1] == "simulated.din: compiling kernels for the CPU, once per machine …"
    finally:
        hooks.after_pipeline_run()
    assert log_line(caplog, "simulated.din") == f"simulated.din, {line}"


def test_a_process_of_the_parallel_runner_says_the_position_but_not_what_is_left(caplog, clock, monkeypatch):
    nodes = [training_node(f"simulated.{key}") for key in ("din_tuned", "lr", "din", "base", "bst")]
    hooks = ProgressHooks()
    hooks.before_pipeline_run(Pipeline(nodes))
    monkeypatch.setattr(progress.os, "getpid", lambda: 1)  # that of another process
    try:
        for node, position in zip(nodes[:4], (4, 1, 3, 2), strict=True):
            hooks.before_node_run(node)
            line = log_line(caplog, node.name)
            assert line.startswith(f"{node.name.removeprefix('simulated.')} ({position} of 5), seed 1, ")
            assert line.endswith("samples/s")
            clock[0] += 60
            hooks.after_node_run(node)
    finally:
        hooks.after_pipeline_run()


def test_models_that_compile_or_are_found_trained_do_not_count_in_what_is_left(caplog, clock):
    names = [
        f"simulated.{key}" for key in ("din", "din_dice", "din_mba", "fm", "lr", "pnn", "base", "deepfm")
    ]
    hooks = ProgressHooks()
    hooks.before_pipeline_run(Pipeline([training_node(name) for name in names]))
    try:
        for name, seconds in zip(names, (0, 0, 300, 10, 12), strict=False):
            hooks.before_node_run(training_node(name))
            if seconds:
                log_line(caplog, name)
            clock[0] += seconds
            hooks.after_node_run(training_node(name))
        hooks.before_node_run(training_node("simulated.pnn"))
        assert log_line(caplog, "simulated.pnn").endswith(" · about 40 s of training left")  # 3 models
    finally:
        hooks.on_pipeline_error()


def test_with_several_datasets_the_line_names_them_and_a_single_model_has_no_position(caplog):
    for names, shown in ((["a.din", "b.din"], "b.din (2 of 2), seed 1,"), (["b.din"], "din, seed 1,")):
        hooks = ProgressHooks()
        hooks.before_pipeline_run(Pipeline([training_node(name) for name in names]))
        try:
            hooks.before_node_run(training_node("b.din"))
            assert log_line(caplog, "b.din").startswith(shown)
        finally:
            hooks.on_pipeline_error()


@pytest.mark.parametrize(
    ("seconds", "text"), [(1, "10 s"), (24, "20 s"), (89, "90 s"), (200, "3 min"), (4000, "1 h 7 min")]
)
def test_durations_are_rough(seconds, text):
    assert format_duration(seconds) == text
