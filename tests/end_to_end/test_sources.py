"""``kedro run`` from small raw files of each source to the results table."""

import numpy as np
import pandas as pd
import pytest
from support import forked
from support.project import copy_project, results, run
from support.raw_files import write_amazon, write_movielens

from deep_interest.experiments import ABLATIONS, MODELS, DatasetSpec, table_for

COLUMNS = {
    "model", "name", "gauc", "gauc_std", "auc", "auc_std", "logloss", "rela_impr", "user_coverage", "seeds", "train_seconds", "samples_per_second",
}  # fmt: skip


def check_results(project, dataset, completed):
    assert completed.returncode == 0, completed.stdout
    table = pd.read_csv(project / "data/smoke/08_reporting" / dataset / "results.csv")
    assert set(table) >= COLUMNS
    models = table_for(DatasetSpec("tables", impressions=dataset == "simulated")).models
    assert tuple(table["model"])[: len(models)] == models
    assert table["gauc"].between(0, 1).all()
    page = (project / "data/smoke/08_reporting" / dataset / "results.md").read_text()
    assert all(MODELS[model].name in page for model in models)
    assert (project / "data/smoke/08_reporting" / dataset / "results.png").read_bytes()[:4] == b"\x89PNG"
    assert not list((project / "data").rglob("*.part"))
    return table


@pytest.mark.nightly
def test_the_simulated_dataset_runs_from_scratch(tmp_path):
    project = copy_project(tmp_path / "project")
    table = check_results(project, "simulated", run(project))
    assert list(table["model"])[-1] == "oracle"
    assert table["oracle_share"].iloc[-1] == 1
    samples = pd.read_parquet(project / "data/smoke/05_model_input/simulated/samples.parquet")
    assert list(samples)[:6] == ["user", "item", "label", "time", "history_end", "split"]
    assert set(samples["split"]) == {"train", "validation", "test"}


@pytest.mark.nightly
def test_the_papers_ablations_give_tables_and_curves(tmp_path):
    project = copy_project(tmp_path / "project")
    done = forked.run(project, f"--pipelines={','.join(f'{name}.simulated' for name in ABLATIONS)}")
    assert done.returncode == 0, done.stdout
    for name, table in ABLATIONS.items():
        folder = project / "data/smoke/08_reporting/simulated" / name
        rows = pd.read_csv(folder / "results.csv").set_index("model")
        assert tuple(rows.index)[:-1] == table.models  # and the oracle
        base = rows.loc[table.base]
        assert (
            base["rela_impr"] == 0 or not base["gauc_low"] > 0.5
        )  # no RelaImpr where the base may only guess
        assert (folder / "results.png").exists()
        assert (folder / "curves.png").exists() == table.curves
        assert (folder / "results.md").read_text().startswith(f"# Simulated shop: {table.title}")


def test_amazon_runs_are_reproducible_and_need_no_metadata(tmp_path):
    raw = tmp_path / "raw"
    write_amazon(raw / "amazon", category_file="Beauty")
    first, second = (copy_project(tmp_path / name) for name in ("one", "two"))
    check_results(first, "amazon_beauty", forked.run(first, "--pipelines=amazon_beauty", raw=raw))
    some = ["base", "din", "dien_mba"]
    parameters = f"--params=datasets.amazon_beauty.models={' '.join(some)}"
    completed = run(second, "--pipelines=amazon_beauty", parameters, raw=raw)
    assert completed.returncode == 0, completed.stdout
    pd.testing.assert_frame_equal(
        *(
            results(project, "amazon_beauty")
            .set_index("model")
            .loc[some, ["gauc", "gauc_std", "auc", "logloss"]]
            for project in (first, second)
        ),
        check_exact=True,
    )
    summary = pd.read_csv(first / "data/smoke/08_reporting/amazon_beauty/samples_summary.csv").set_index(
        "split"
    )
    users, behaviors = summary.loc["all", "users"], summary.loc["all", "behaviors"]
    assert summary.loc["test", "rows"] == summary.loc["validation", "rows"] == 2 * users
    assert summary.loc["train", "rows"] == 2 * (behaviors - 3 * users)
    for metadata in raw.rglob("meta_*"):
        metadata.unlink()
    done = forked.run(second, "--pipelines=amazon_beauty.base", raw=raw)
    assert done.returncode == 0, done.stdout
    results_table = pd.read_csv(second / "data/smoke/08_reporting/amazon_beauty/base/results.csv")
    assert list(results_table["model"]) == ["base"]


@pytest.mark.parametrize(
    ("layout", "dataset", "zipped"),
    [("100k", "movielens_100k", True), ("1m", "movielens_1m", False), ("csv", "movielens_20m", True)],
)
def test_movielens_runs_in_each_layout(tmp_path, layout, dataset, zipped):
    write_movielens(tmp_path / "raw/movielens", layout, zipped=zipped, users=60)
    project = copy_project(tmp_path / "project")
    completed = forked.run(project, f"--pipelines={dataset}.din", raw=tmp_path / "raw")
    assert completed.returncode == 0, completed.stdout
    samples = pd.read_parquet(project / "data/smoke/05_model_input" / dataset / "samples.parquet")
    behaviors = pd.read_parquet(project / "data/smoke/02_intermediate" / dataset / "behaviors.parquet")
    assert len(samples) == len(behaviors)
    assert samples["label"].sum() == (behaviors["rating"] >= 4).sum()
    np.testing.assert_array_equal(samples.groupby("user")["history_end"].min(), 0)
