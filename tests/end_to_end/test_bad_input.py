"""Invalid input: ``kedro run`` reports it in one clear message."""

import gzip

import pandas as pd
import pytest
from support.project import copy_project, run
from support.raw_files import write_amazon


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return copy_project(tmp_path_factory.mktemp("bad_input"))


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (
            ["--pipelines=amazon_beauty"],
            ["reviews_Beauty_5.json.gz", "deep-interest download amazon_beauty", "jmcauley"],
        ),
        (
            ["--params=models.din.atention=3"],
            ["Parameter 'models.din'", "atention", "Extra inputs are not permitted"],
        ),
        (["--params=training.sedes=3"], ["Parameter 'training'", "sedes"]),
        (
            ["--params=datasets.simulated.protocol.name=by_year"],
            ["Parameter 'datasets.simulated'", "by_year", "'by_day'"],
        ),
        (
            ["--params=models.dinn.normalize=softmax"],
            ["error: models: dinn is unknown; expected popularity, item_ctr, lr"],
        ),
        (
            ["--params=datasets.simulatd.recipe=ours"],
            ["error: datasets: simulatd is unknown; expected simulated"],
        ),
        (
            ["--params=trainnig.device=cpu"],
            ["error: parameters: trainnig is unknown; expected backtest, datasets, evaluation, models"],
        ),
        (
            ["--params=recipes.demo.model.embeding_dim=64"],
            ["Parameter 'recipes'", "no model has the option embeding_dim"],
        ),
        (["--params=training.options.epocs=3"], ["Parameter 'training'", "epocs"]),
        (["--params=training.device=warp"], ["training.device: 'warp' does not exist here"]),
        (
            ["--params=training.recipe=mine"],
            ["error: training.recipe: mine is unknown; expected ours, demo, paper_din"],
        ),
        (["--pipelines=amazon_beauti"], ["amazon_beauti"]),
        (["--pipelines=simulated.dinn"], ["simulated.dinn"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_mistake_is_reported_in_one_message(project, tmp_path, arguments, messages):
    completed = run(project, *arguments, raw=tmp_path)
    assert completed.returncode != 0
    for message in messages:
        assert message in completed.stdout
    assert "done in" not in completed.stdout, "the mistake must be reported before any node runs"


def test_invalid_raw_data_stops_the_run_without_a_traceback(project, tmp_path):
    write_amazon(tmp_path / "amazon", category_file="Beauty")
    reviews = tmp_path / "amazon/reviews_Beauty_5.json.gz"
    reviews.write_bytes(reviews.read_bytes()[:-100])
    completed = run(project, "--pipelines=amazon_beauty", raw=tmp_path)
    assert completed.returncode != 0
    assert "reviews_Beauty_5.json.gz" in completed.stdout
    assert completed.stdout.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in completed.stdout
    assert not (project / "data/smoke/02_intermediate/amazon_beauty/behaviors.parquet").exists()


def test_malformed_lines_may_be_skipped_and_are_counted(project, tmp_path):
    reviews, _ = write_amazon(tmp_path / "amazon", category_file="Toys_and_Games")
    lines = gzip.decompress(reviews.read_bytes()).splitlines()
    lines[3:3] = [b'{"reviewerID": "A1", "asin":', b'{"reviewerID": "A1", "asin": "B1"}']
    reviews.write_bytes(gzip.compress(b"\n".join(lines)))
    failed = run(project, "--pipelines=samples.amazon_toys", raw=tmp_path)
    assert failed.returncode != 0
    assert "reviews_Toys_and_Games_5.json.gz, line 4" in failed.stdout
    skip = "--params=datasets.amazon_toys.reading.on_bad_line=skip"
    completed = run(project, "--pipelines=samples.amazon_toys", skip, raw=tmp_path)
    assert completed.returncode == 0, completed.stdout
    summary = pd.read_csv(project / "data/smoke/08_reporting/amazon_toys/samples_summary.csv")
    left_out = summary[summary["split"] == "left out"]
    assert left_out["rows"].sum() == 2
    assert left_out["reason"].str.contains("unixReviewTime").any()
