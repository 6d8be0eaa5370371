"""A dataset is known by its block in the configuration, before Kedro loads parameters."""

import subprocess
import sys

import pytest
import yaml
from support.project import copy_project, environment

from deep_interest.config import check_files, dataset_blocks, rename_key
from deep_interest.errors import InputError
from deep_interest.experiments import DatasetSpec, datasets_of

BLOCK = {"title": "Mine", "source": {"behaviors": {"files": "a.csv"}}, "protocol": {"name": "next_item"}}


def write(file, blocks):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"datasets": blocks}))


def test_blocks_of_all_parameter_files_and_of_the_environment_are_merged(tmp_path):
    write(tmp_path / "base/parameters/datasets.yml", {"mine": BLOCK})
    write(tmp_path / "base/parameters_more.yml", {"yours": BLOCK})
    write(tmp_path / "live/parameters.yml", {"mine": {"source": {"impressions": {"files": "b.csv"}}}})
    (tmp_path / "base/parameters/models.yml").write_text("models: {}")
    assert set(dataset_blocks(tmp_path)) == {"mine", "yours"}
    merged = dataset_blocks(tmp_path, "live")["mine"]
    assert merged["source"] == {"behaviors": {"files": "a.csv"}, "impressions": {"files": "b.csv"}}


def test_merging_leaves_what_was_read_as_it_is_and_a_changed_file_is_read_again(tmp_path):
    write(tmp_path / "base/parameters/datasets.yml", {"mine": BLOCK})
    write(tmp_path / "live/parameters.yml", {"mine": {"title": "Live"}})
    assert dataset_blocks(tmp_path, "live")["mine"]["title"] == "Live"
    assert dataset_blocks(tmp_path)["mine"] == BLOCK
    write(tmp_path / "base/parameters/datasets.yml", {"mine": BLOCK | {"title": "Ours"}})
    assert dataset_blocks(tmp_path)["mine"]["title"] == "Ours"


def test_what_a_block_declares_decides_what_kind_of_dataset_it_is():
    with_impressions = BLOCK | {"source": {"impressions": {"files": "b.csv"}}}
    rows = datasets_of({"mine": BLOCK, "yours": with_impressions, "amazon_toys": {"title": "Toys"}})
    assert rows["mine"] == DatasetSpec("tables")
    assert rows["yours"] == DatasetSpec("tables", impressions=True)
    assert rows["amazon_toys"] == DatasetSpec("amazon")


def test_a_block_may_name_its_rows_as_the_command_line_can():
    for rows in (["din", "base"], "din base"):
        known = datasets_of({"mine": BLOCK | {"models": rows}, "amazon_toys": {"models": rows}})
        assert known["mine"].models == known["amazon_toys"].models == ("base", "din")
    assert datasets_of({"mine": BLOCK | {"models": None}})["mine"].models is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ["base", "dinn"],
            r"datasets\.mine\.models: dinn is unknown; the models are popularity, item_rate, item_knn, ",
        ),
        (["din"], r"datasets\.mine\.models: base is missing; RelaImpr and the differences refer to it"),
        ({"din": 1}, r"datasets\.mine\.models: found \{'din': 1\}; name models as a list"),
        (7, r"datasets\.mine\.models: found \[7\]; name models as a list"),
    ],
)
def test_rows_that_are_none_are_refused(rows, message):
    with pytest.raises(InputError, match=message):
        datasets_of({"mine": BLOCK | {"models": rows}})


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("la-ferme.fr", r"datasets: 'la-ferme.fr' is not a valid dataset name; use letters, digits, _ and -"),
        ("La ferme", "is not a valid dataset name"),
        ("simulate", "datasets: simulate is the name of a pipeline"),
        ("din_table4", "is the name of a pipeline"),
    ],
)
def test_a_key_that_cannot_name_pipelines_is_refused(key, message):
    with pytest.raises(InputError, match=message):
        datasets_of({key: BLOCK})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("datasets:\n  mine:\n    label: {column: geklickt?, positive: Ja}\n", r"mine.yml, line 3, column \d+: .*quote strings"),
        ("datasets:\n\tmine: 1\n", r"mine.yml, line 2, column 1: .*Indent with spaces"),
        ("datasets:\n  mine:\n    title: a\n    title: b\n", r"mine.yml, line 4, column 5: found duplicate key title"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_yaml_is_one_error_with_its_line(tmp_path, text, message):
    file = tmp_path / "base/parameters/mine.yml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        check_files(tmp_path, ["base", "local"])
    with pytest.raises(InputError, match=message):
        dataset_blocks(tmp_path)


@pytest.mark.slow
def test_a_new_block_is_a_pipeline_of_kedro(tmp_path):
    project = copy_project(tmp_path / "project", code=True)
    write(project / "conf/local/parameters_mine.yml", {"mine": BLOCK})
    listed = subprocess.run(
        [sys.executable, "-m", "kedro", "registry", "list"], cwd=project, env=environment(), text=True, check=True,
        capture_output=True, timeout=120,
    ).stdout  # fmt: skip
    names = yaml.safe_load(listed)
    assert {"mine", "mine.din", "samples.mine"} <= set(names)


def test_mappings_under_both_names_are_merged():
    block = {"rows": {"din": 1}, "models": {"din": 2, "dien": 3}, "title": "t"}
    assert rename_key(block, "rows", "models") == {"models": {"din": 1, "dien": 3}, "title": "t"}
    assert rename_key({"title": "t"}, "rows", "models") == {"title": "t"}


def test_rows_is_an_alias_of_models():
    assert datasets_of({"mine": BLOCK | {"rows": "din base"}})["mine"].models == ("base", "din")
    with pytest.raises(
        InputError, match="datasets: models and rows, its former name, are both set; remove rows"
    ):
        datasets_of({"mine": BLOCK | {"rows": "din base", "models": "lr base"}})
