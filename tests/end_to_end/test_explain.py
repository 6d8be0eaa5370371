"""What a user does with a trained model: ``deep-interest explain`` and ``results``, and `deep_interest.load`."""

import importlib
import logging
import subprocess
import sys

import pandas as pd
import pytest
from support.forked import run
from support.project import copy_project, environment

import deep_interest
from deep_interest.commands.main import main
from deep_interest.errors import InputError


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = copy_project(tmp_path_factory.mktemp("explain") / "project")
    done = run(project, "--pipelines=simulated.din", "--params=training.seeds=1")
    assert done.returncode == 0, done.stdout
    return project


@pytest.fixture(scope="module")
def user_and_item(project):
    """Ids of a user with behaviours and of an item."""
    tables = project / "data/smoke/02_intermediate/simulated"
    behaviors = pd.read_parquet(tables / "behaviors.parquet")
    return str(behaviors["user"].value_counts().index[0]), str(behaviors["item"].iloc[0])


@pytest.mark.nightly
def test_explain_works_in_any_folder_of_the_project(project, user_and_item, tmp_path):
    user, item = user_and_item
    command = [
        sys.executable, "-m", "deep_interest.commands.main", "explain", "simulated.din", "--user", user, "--candidate", item, "--top", "3",
        "--plot", str(tmp_path / "why.png"), "--env", "smoke",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=project / "conf" / "base",
        env=environment(),
        text=True,
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert f"plot: {tmp_path / 'why.png'}" in done.stdout
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("experiment", "changes", "message"),
    [
        ("simulated.din", {"--user": "nobody"}, "nobody"),
        ("simulated.din", {"--plot": "why.jpg"}, "--plot: found why.jpg, expected a file name that ends in .png"),
        ("simulated.din", {"--plot": "/proc/none/why.png"}, "/proc/none/why.png: the plot cannot be written"),
        ("simulated.din_mba_tuned", {}, "train it with `kedro run --pipelines=tuned.simulated.din_mba --env=smoke`"),
        ("simulated.dinn", {}, "'simulated.dinn': expected DATASET.MODEL"),
        ("simulatd.din", {}, "simulatd is not a dataset; the datasets are"),
        ("simulated.din", {"--env": "nonsense"}, "--env: nonsense is not an environment"),
    ],
)  # fmt: skip
def test_invalid_requests_are_reported_in_one_line(
    project, user_and_item, monkeypatch, capsys, experiment, changes, message
):
    monkeypatch.chdir(project)
    options = {"--user": user_and_item[0], "--candidate": user_and_item[1], "--env": "smoke"} | changes
    assert main(["explain", experiment, *(part for option in options.items() for part in option)]) == 1
    message_line = capsys.readouterr().err
    assert message in message_line
    assert message_line.count("\n") == 1


def test_earlier_results_are_listed_and_compared(project, monkeypatch, capsys):
    monkeypatch.chdir(project)
    assert main(["results", "simulated", "--run", "last", "--env", "smoke"]) == 0
    title, _, header, *rows = capsys.readouterr().out.splitlines()
    assert ", din: environment smoke" in title
    assert header.split() == ["name", "GAUC", "AUC", "log", "loss"]
    assert [row.split()[0] for row in rows] == ["Oracle", "DIN"]
    assert main(["results", "kuairand", "--env", "smoke"]) == 1
    assert (
        "kuairand: no results yet; run `kedro run --pipelines=kuairand --env=smoke`"
        in capsys.readouterr().err
    )


def test_predictions_from_python_are_those_of_the_test_set(project, caplog):
    importlib.import_module("deep_interest.prediction")  # Kedro configures logging when it is imported
    before, kedro = sys.excepthook, logging.getLogger("kedro")
    kedro.setLevel(logging.INFO)
    model = deep_interest.load("simulated.din", env="smoke", folder=project / "conf")
    assert (sys.excepthook, kedro.level, caplog.text) == (before, logging.INFO, "")
    data = project / "data/smoke"
    tables = data / "02_intermediate/simulated"
    samples = pd.read_parquet(data / "05_model_input/simulated/samples.parquet").query("split == 'test'")
    samples["expected"] = pd.read_parquet(data / "07_model_output/simulated/din/predictions.parquet")[
        "seed_1"
    ].array
    for kind in ("user", "item"):
        ids = pd.read_parquet(data / f"03_primary/simulated/{kind}_ids.parquet")["id"]
        samples[kind] = ids.reindex(samples[kind] - 1).array
    impressions = pd.read_parquet(tables / "impressions.parquet").drop_duplicates(["user", "item", "time"])
    context = samples[["user", "item", "time"]].merge(impressions, how="left")[list(model.context)]
    behaviors = pd.read_parquet(tables / "behaviors.parquet").groupby("user")["item"].apply(list)
    rows = zip(samples.to_dict("records"), context.to_dict("records"), strict=True)
    for sample, shown in list(rows)[::20]:
        history = behaviors.get(sample["user"], [])
        before_it = model.predict(
            sample["user"], [sample["item"]], shown, history=history[: sample["history_end"]]
        )
        assert before_it.tolist() == pytest.approx([sample["expected"]], abs=1e-6)
        by_default = model.predict(sample["user"], [sample["item"]], shown)  # the whole log
        assert by_default.equals(model.predict(sample["user"], [sample["item"]], shown, history=history))


@pytest.mark.nightly
def test_a_model_that_is_not_trained_or_does_not_exist_is_one_message(project):
    for experiment, options, message in (
        ("simulated.dien", {}, r"dien/checkpoint\.pt does not exist; run `kedro run --pipelines=simulated\.dien`"),
        ("simulated.din", {"seed": 9}, r"seed: simulated\.din was not trained with 9; its seeds are 1$"),
        ("simulated.din", {"version": "champion"}, r"no version serves yet; run `kedro run --pipelines=retrain\.simulated\.din`"),
        ("simulated.din", {"version": "champion", "seed": 1}, r"seed: a version has one model"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            deep_interest.load(experiment, env="smoke", folder=project, **options)
