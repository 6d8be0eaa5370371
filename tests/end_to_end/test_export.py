"""``deep-interest export`` of trained models, and the loader of the documentation, next to `deep_interest.load`."""

import json
import re
import runpy

import numpy as np
import pandas as pd
import pytest
import torch
from support.forked import run
from support.project import PROJECT, copy_project

import deep_interest
from deep_interest.commands.main import main
from deep_interest.io.checksums import damage_of


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with two trained models."""
    project = copy_project(tmp_path_factory.mktemp("export") / "project")
    done = run(project, "--pipelines=simulated.din,simulated.popularity")
    assert done.returncode == 0, done.stdout
    return project


@pytest.fixture(scope="module")
def requests(project):
    """Users with candidates, context and history; unknown ids, an empty history and duplicate candidates included."""
    behaviors = pd.read_parquet(project / "data/smoke/02_intermediate/simulated/behaviors.parquet")
    items = behaviors["item"].unique().tolist()
    histories = behaviors.groupby("user")["item"].apply(list)
    found = [
        (user, items[k : k + 5], {"pid": 1, "hour": k % 24}, histories[user])
        for k, user in enumerate(histories.index[:10].tolist())
    ]
    return [
        *found,
        (None, [items[0], -1, items[0]], {"pid": -1, "hour": 3}, []),
        (found[0][0], items[:1], {"pid": 2, "hour": 0}, [-1, items[1]]),
    ]


def export(project, monkeypatch, *arguments: str) -> int:
    monkeypatch.chdir(project / "conf")
    return main(["export", *arguments, "--env", "smoke"])


@pytest.mark.nightly
def test_the_documented_loader_predicts_like_deep_interest_load(
    project, requests, monkeypatch, capsys, tmp_path
):
    assert export(project, monkeypatch, "simulated.din") == 0
    folder = project / "data/smoke/06_models/simulated/din/export_onnx"
    assert capsys.readouterr().out.endswith(f"simulated.din: {folder}\n")
    assert damage_of(folder) == ""
    code = re.findall(
        r"```python\n(import json\n.*?)```", (PROJECT / "docs/export.md").read_text(), flags=re.DOTALL
    )[0]
    (tmp_path / "loader.py").write_text(code)
    (tmp_path / "data/06_models/simulated/din").mkdir(parents=True)
    (tmp_path / "data/06_models/simulated/din/export_onnx").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    loader = runpy.run_path(str(tmp_path / "loader.py"))
    assert loader["ctr"].index.tolist() == [1002, 95]
    model = deep_interest.load("simulated.din", env="smoke", folder=project)
    for user, items, context, history in requests:
        expected = model.predict(user, items, context, history=history)
        found = loader["predict"](user, items, context, history)
        assert found.index.tolist() == items
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.nightly
def test_a_seed_and_a_folder_can_be_chosen(project, monkeypatch, tmp_path):
    folder = tmp_path / "program"
    arguments = ("simulated.din", "--format", "pt2", "--seed", "2", "--out", str(folder))
    assert export(project, monkeypatch, *arguments) == 0
    schema = json.loads((folder / "schema.json").read_text())
    assert (schema["dataset"], schema["model"], schema["seed"]) == ("simulated", "din", 2)
    model = deep_interest.load("simulated.din", env="smoke", seed=2, folder=project).model
    state = torch.export.load(folder / "model.pt2").state_dict
    for name, values in model.named_parameters():
        assert torch.equal(state[f"model.{name}"], values), name


def test_a_model_of_counts_is_exported(project, monkeypatch, tmp_path):
    assert export(project, monkeypatch, "simulated.popularity", "--out", str(tmp_path / "counts")) == 0
    schema = json.loads((tmp_path / "counts/schema.json").read_text())
    assert [spec["name"] for spec in schema["inputs"]] == ["candidates.item_id"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulated.dien"], "checkpoint.pt does not exist; run `kedro run --pipelines=simulated.dien --env=smoke`"),
        (["simulated.dinn"], "'simulated.dinn': expected DATASET.MODEL"),
        (["simulatd.din"], "simulatd is not a dataset; the datasets are"),
        (["simulated.din", "--format", "onx"], "--format: onx is not a format; the formats are onnx, pt2; did you"),
        (["simulated.din", "--seed", "9"], "seed: simulated.din was not trained with 9; its seeds are 1, 2"),
        (["simulated.din", "--version", "champion"], "no version serves yet"),
        (["simulated.din", "--out", "base"], "base: the folder also holds catalog"),
    ],
)  # fmt: skip
def test_invalid_requests_are_reported_in_one_line(project, monkeypatch, capsys, arguments, message):
    assert export(project, monkeypatch, *arguments) == 1
    line = capsys.readouterr().err
    assert message in line
    assert line.count("\n") == 1
