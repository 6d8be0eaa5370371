"""Invalid input: ``kedro run`` reports it in one clear message."""

import gzip

import pandas as pd
import pytest
from support.forked import run
from support.project import copy_project
from support.raw_files import write_amazon


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return copy_project(tmp_path_factory.mktemp("bad_input"))


def test_a_mistake_is_reported_in_one_message_before_any_node_runs(project, tmp_path):
    completed = run(project, "--params=models.din.atention=3", raw=tmp_path)
    assert completed.returncode == 1
    message = completed.stdout.splitlines()[-1]
    assert message.startswith(
        "error: --params: models.din.atention: unknown parameter (found 3); the parameters here are"
    )
    assert "Traceback" not in completed.stdout
    assert "done in" not in completed.stdout


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
