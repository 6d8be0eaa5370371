from itertools import pairwise
from pathlib import Path

import pytest
from kedro.io import DataCatalog, DatasetError, MemoryDataset
from kedro.validation import ParameterValidationError

from deep_interest.errors import InputError
from deep_interest.hooks.mlflow import MLflowHooks
from deep_interest.hooks.run import RunHooks, clear_killed_runs, explain
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
def test_what_a_user_can_mend_is_one_message(error, shown, capsys):
    explain(type(error), error, None)
    assert capsys.readouterr().err == shown


@pytest.mark.parametrize(
    "error", [KeyError("a fault of ours"), chained(DatasetError("outer"), KeyError("a fault of ours"))]
)
def test_a_fault_of_ours_keeps_its_traceback(error, capsys):
    explain(type(error), error, error.__traceback__)
    assert "a fault of ours" in capsys.readouterr().err.splitlines()[0]


def test_a_row_is_not_trained_with_values_whose_search_is_in_the_same_run():
    from deep_interest.training.parameters import RunParameters

    pipelines = register_pipelines()
    both = pipelines["tune.simulated.din"] + pipelines["simulated.din"]
    catalog = {"params:training": MemoryDataset(RunParameters(tuned=True, device="cpu"))}
    with pytest.raises(
        InputError, match=r"simulated\.din is searched and trained in one run; search first, by"
    ):
        RunHooks().before_pipeline_run(both, DataCatalog(catalog))
    none = DataCatalog(catalog | {"simulated.tuned": MemoryDataset({})})
    with pytest.raises(
        InputError, match=r"no tuned values for simulated\.din; find some by .*tune\.simulated\.din"
    ):
        RunHooks().before_pipeline_run(pipelines["simulated.din"], none)
    found = DataCatalog(catalog | {"simulated.tuned": MemoryDataset({"din": {"values": {}}})})
    RunHooks().before_pipeline_run(pipelines["simulated.din"], found)


def test_an_mlflow_that_cannot_be_told_is_a_warning_and_one_that_is_not_installed_an_error(
    monkeypatch, caplog
):
    from deep_interest.serving import mlflow_alias
    from deep_interest.training.parameters import RunParameters

    pipeline = register_pipelines()["simulated.din"]
    run = RunParameters(mlflow_uri="http://127.0.0.1:9", device="cpu")  # nobody listens there
    catalog = DataCatalog({"params:training": MemoryDataset(run)})
    MLflowHooks().before_pipeline_run(pipeline, catalog)
    MLflowHooks().after_pipeline_run(pipeline, catalog)
    assert "http://127.0.0.1:9 was not told" in caplog.text
    monkeypatch.setattr(mlflow_alias, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"training\.mlflow_uri is set, but MLflow is not installed"):
        MLflowHooks().before_pipeline_run(pipeline, catalog)


def test_the_next_run_removes_what_killed_runs_of_its_dataset_left(tmp_path):
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
