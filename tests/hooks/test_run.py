from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kedro.framework.session import KedroSession
from kedro.io import DataCatalog, DatasetError, MemoryDataset
from kedro.validation import ParameterValidationError
from support.kedro_project import make_project

from deep_interest.errors import InputError
from deep_interest.hooks.mlflow import MLflowHooks
from deep_interest.hooks.run import RunHooks, clear_killed_runs, report_error
from deep_interest.pipeline_registry import register_pipelines


def chained(*errors):
    """The first error, each raised from the next."""
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    return errors[0]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (InputError("reviews.json: line 3"), "error: reviews.json: line 3\n"),
        (chained(DatasetError("outer"), DatasetError("the file is missing")), "error: the file is missing\n"),
        (chained(DatasetError("outer"), InputError("the disk is full")), "error: the disk is full\n"),
        (ParameterValidationError("Parameter 'x'"), "error: Parameter 'x'\n"),
    ],
)
def test_invalid_input_is_reported_in_one_message(error, shown, capsys):
    report_error(type(error), error, None)
    assert capsys.readouterr().err == shown


@pytest.mark.parametrize("error", [KeyError("a bug"), chained(DatasetError("outer"), KeyError("a bug"))])
def test_other_errors_keep_their_traceback(error, capsys):
    report_error(type(error), error, error.__traceback__)
    assert "a bug" in capsys.readouterr().err.splitlines()[0]


@pytest.mark.slow
def test_the_parameters_of_a_session_are_read_once_and_of_the_next_one_again(tmp_path):
    project = make_project(tmp_path / "project")
    (project / "conf/local").mkdir(exist_ok=True)
    file = project / "conf/local/parameters.yml"

    def seeds(change: str) -> list[object]:
        with KedroSession.create(project, save_on_close=False) as session:
            loader: Any = session.load_context().config_loader
            file.write_text(change)
            return [loader["parameters"]["training"]["seeds"] for _ in range(2)]

    file.write_text("training: {seeds: [7]}")
    assert seeds("training: {seeds: [8]}") == [[7], [7]]
    assert seeds("training: {seeds: [9]}") == [[8], [8]]


@pytest.mark.slow
def test_tuned_values_must_exist_before_the_run_that_trains_with_them():
    from deep_interest.training.parameters import RunParameters

    pipelines = register_pipelines()
    both = pipelines["tune.simulated.din"] + pipelines["simulated.din"]
    catalog = {"params:training": MemoryDataset(RunParameters(tuned=True, device="cpu"))}
    with pytest.raises(InputError, match=r"would both tune and train simulated\.din; tune first with"):
        RunHooks().before_pipeline_run(both, DataCatalog(catalog))
    none = DataCatalog(catalog | {"simulated.tuned": MemoryDataset({})})
    with pytest.raises(
        InputError, match=r"no tuned values for simulated\.din; find them with .*tune\.simulated\.din"
    ):
        RunHooks().before_pipeline_run(pipelines["simulated.din"], none)
    found = DataCatalog(catalog | {"simulated.tuned": MemoryDataset({"din": {"values": {}}})})
    RunHooks().before_pipeline_run(pipelines["simulated.din"], found)


@pytest.mark.slow
def test_an_unreachable_mlflow_is_a_warning_and_a_missing_one_an_error(monkeypatch, caplog):
    from deep_interest.serving import mlflow_alias
    from deep_interest.training.parameters import RunParameters

    pipeline = register_pipelines()["simulated.din"]
    run = RunParameters(mlflow_uri="http://127.0.0.1:9", device="cpu")  # a closed port
    catalog = DataCatalog({"params:training": MemoryDataset(run)})
    MLflowHooks().before_pipeline_run(pipeline, catalog)
    MLflowHooks().after_pipeline_run(pipeline, catalog)
    assert "http://127.0.0.1:9 could not be updated" in caplog.text
    monkeypatch.setattr(mlflow_alias, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"training\.mlflow_uri is set, but MLflow is not installed"):
        MLflowHooks().before_pipeline_run(pipeline, catalog)


@pytest.mark.slow
def test_the_next_run_removes_unfinished_files_of_killed_runs(tmp_path):
    def leave(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
        return path

    fit = leave(tmp_path / "06_models/simulated/din/.seed_1.pt.x.part")
    folder = leave(tmp_path / "04_feature/simulated/.log.y.part/offsets.npy").parent
    kept = [
        leave(tmp_path / name)
        for name in (
            "06_models/simulated/din/seed_1.pt",
            "06_models/other/din/.seed_1.pt.x.part",
            "01_raw/simulated/.users.part",
        )
    ]
    clear_killed_runs(tmp_path, register_pipelines()["simulated.din"])
    assert not fit.exists()
    assert not folder.exists()
    assert all(path.exists() for path in kept)
