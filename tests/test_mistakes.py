"""Mistakes at the command line and in YAML files: each is one message that says what is wrong, where, and what to do."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from kedro.framework.session import KedroSession
from support.kedro_project import make_project

from deep_interest.cli import run
from deep_interest.commands.main import cli

pytestmark = pytest.mark.slow  # each reads the configuration of a project

DATASET = """
datasets:
  mine:
    title: Mine
    protocol: {name: next_item}
    source: {behaviors: {files: visits.csv}}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("mistakes") / "project")


@pytest.fixture(autouse=True)
def in_project(project, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.delenv("KEDRO_ENV", raising=False)
    monkeypatch.setenv("DEEP_INTEREST_RAW", "/nowhere")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr("deep_interest.pipeline_registry._session_blocks", None)


def kedro_run(*arguments: str) -> Result:
    return CliRunner().invoke(run, ["--env=smoke", *arguments])


def is_one_message(result: Result, *messages: str) -> None:
    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.stderr
    assert result.stderr.count("rror: ") == 1
    for message in messages:
        assert message in result.stderr


COMMAND_LINE = {
    "--pipelines=simulatd": "--pipelines: simulatd is not a pipeline; list them with `kedro registry list`; did you mean simulated",
    "--pipelines=simulated.dinn": "simulated.dinn is not a pipeline: dinn is not a model",
    "--pipelines=movielens_2m.din": "movielens_2m.din is not a pipeline: movielens_2m is not a dataset",
    "--pipelines=din_tabel4.simulated": "din_tabel4 is not a kind of pipeline; list them with `kedro registry list`; did you mean din_table4",
    "--pipelines=retrain.movielens_1m.din": "retrain needs a dataset with impressions",
    "--nodes=simulated.simulat": "--nodes: simulated.simulat is not a node of the pipeline __default__; did you mean simulated.simulate",
    "--from-nodes=ingest": "--from-nodes: ingest is not a node of the pipeline __default__; did you mean ingest.simulated.ingest",
    "--to-nodes=din.simulated.trian": "did you mean models.attention.din.simulated.train",
    "--nodes=compare.simulated.compare_models": "the selected nodes need simulated.trained_models, which no file keeps; select the node",
    "--tags=simulatd": "--tags: simulatd is not a tag of the pipeline __default__; did you mean simulated",
    "--namespaces=simulated.dni": "--namespaces: simulated.dni is not a namespace",
    "--from-inputs=simulated.behaviours": "did you mean simulated.behaviors",
    "--to-outputs=simulated.result": "simulated.result is not a catalog entry of the pipeline __default__",
    "--env=smok": "--env: smok is not an environment; the environments are base, cluster, duckdb, industrial, local, nightly, smoke, spark",
    "--runner=ParalelRunner": "--runner: ParalelRunner is not a runner; choose SequentialRunner",
    "--params=training.seeds=1,2": "separate the items of a list by blanks: --params='training.seeds=1 2 3'",
    "--params=training": "must contain a key and a value separated by `=`",
    "--params=training.learning_rate=0.1": "training.learning_rate: not a parameter here; set training.options.learning_rate",
    "--params=learning_rate=0.1": "parameters: learning_rate is unknown; expected",
    "--params=trainnig.device=cpu": "did you mean training",
    "--params=training.sedes=3": "--params: training.sedes: unknown parameter (found 3); the parameters here are seeds, device",
    "--params=training.options.epocs=3": "did you mean epochs?",
    "--params=training.options.epochs=0": "training.options.epochs: found 0, expected a value greater than or equal to 1",
    "--params=training.recipe=our": "training.recipe: our is unknown; expected amazon_beauty_leaderboard",
    "--params=recipes.ours.extends=demos": "recipes: ours extends demos, which is unknown; the recipes are amazon_beauty_leaderboard",
    "--params=models.din.normalise=softmax": "models.din.normalise: unknown parameter (found 'softmax')",
    "--params=models=lr din": "models: found 'lr din'; expected a block of options for each model; the models in a table are datasets",
    "--params=models.dinn.normalize=softmax": "models: dinn is unknown; expected popularity",
    "--params=datasets.simulated.protocol.name=by day": "found 'by day', expected 'next_item', 'last_item', 'rated', 'by_day' or 'given'; did you mean by_day?",
    "--params=datasets.simulated.max_users=9": "datasets.simulated.max_users: not a parameter here; set datasets.simulated.reading.max_users",
    "--params=recipes.demo.model.embeding_dim=64": "recipes.demo.model: no model has the option embeding_dim",
    "--params=training.device=warp": "training.device: 'warp' does not exist here",
    "--pipelines=amazon_beauty": "reviews_Beauty_5.json.gz",
    "--params=datasets.simulatd.recipe=ours": "datasets: simulatd is unknown; expected simulated",
}  # fmt: skip


@pytest.mark.parametrize("argument", COMMAND_LINE)
def test_a_mistake_at_the_command_line(argument):
    is_one_message(kedro_run(argument), COMMAND_LINE[argument])


def test_an_unknown_recipe_of_an_earlier_leaderboard_is_found_before_any_work():
    result = kedro_run("--pipelines=leaderboard.simulated", "--params=leaderboard.known=shop")
    is_one_message(result, "leaderboard.known: shop is unknown; expected amazon_beauty_leaderboard")


YAML = {
    "a bracket that is not closed": (
        "parameters_x.yml", "training:\n  options: {epochs: 1\n  seeds: [1]\n", "parameters_x.yml, line 3, column 8: expected ',' or '}'"
    ),
    "a key twice": ("parameters_x.yml", "training:\n  tuned: true\n  tuned: false\n", "line 3, column 3: found duplicate key tuned"),
    "a key in two files": ("parameters_x.yml", "simulation: {users: 9}\n", "simulation.users. Define each key in one file only"),
    "a list as file": ("parameters_x.yml", "- a\n", "parameters_x.yml: found a list, expected names and values"),
    "an unknown key": ("parameters_x.yml", DATASET.replace("title", "titel"), "conf/smoke/parameters_x.yml, line 4: datasets.mine.titel: "),
    "an unknown key in a block": ("parameters_x.yml", DATASET.replace("files", "file"), "did you mean files?"),
    "a list with commas": (
        "parameters_x.yml", f"{DATASET}    seeds: 1,2,3\n", "datasets.mine.seeds: found '1,2,3', expected a whole number; separate"
    ),
    "a string in place of a block": (
        "parameters_x.yml", f"{DATASET}    features: item_id\n", "datasets.mine.features: found 'item_id', expected names and values (name: value); the names are item, behavior, profile"
    ),
    "an option at the wrong place": (
        "parameters_x.yml", f"{DATASET}    epochs: 3\n", "datasets.mine.epochs: not a parameter here; set datasets.mine.training.epochs"
    ),
    "a model that does not exist": ("parameters_x.yml", f"{DATASET}    models: [base, dinn]\n", "datasets.mine.models: dinn is unknown"),
    "a dataset with the name of a pipeline": ("parameters_x.yml", DATASET.replace("mine:", "simulate:"), "simulate is the name of a pipeline"),
    "a time zone that does not exist": (
        "parameters_x.yml", DATASET.replace("{behaviors", "{time_zone: Europe/Berlim, behaviors"), "'Europe/Berlim' is not a time zone"
    ),
    "a feature that does not exist": (
        "parameters_x.yml", f"{DATASET}    features: {{item: [item_id], buckets: {{prise: 3}}}}\n", "prise is not a feature"
    ),
    "a feature with buckets that is standardised as well": (
        "parameters_x.yml", f"{DATASET}    features: {{item: [item_id, price], buckets: {{price: 3}}, standardised: [price]}}\n",
        "standardised: price is in buckets or multi_hot as well; keep it in only one of the three"
    ),
    "a standardised feature that does not exist": (
        "parameters_x.yml", f"{DATASET}    features: {{item: [item_id], standardised: [prise]}}\n", "standardised: prise is not a feature"
    ),
    "a dataset without a source": ("parameters_x.yml", "datasets: {mine: {title: Mine}}\n", "datasets: mine is unknown"),
    "a catalog that is not YAML": ("catalog_x.yml", "a:\n  type: b\n c: d\n", "catalog_x.yml, line 3, column 2: expected <block end>"),
    "an unknown type of dataset": (
        "catalog_x.yml", "mine.samples:\n  type: pandas.CSVDatset\n  filepath: x\n", "line 2: type: pandas.CSVDatset is not a dataset of kedro-datasets; did you mean CSVDataset"
    ),
    "an unknown argument of a dataset": (
        "catalog_x.yml", "mine.samples:\n  type: pandas.CSVDataset\n  filpath: x\n", "catalog_x.yml, line 1: CSVDataset.__init__() got an unexpected"
    ),
    "an unknown global": (
        "catalog_x.yml", "mine.samples:\n  type: pandas.CSVDataset\n  filepath: ${globals:dta}\n", "catalog_x.yml, line 3: mine.samples.filepath: Globals key 'dta' not found"
    ),
    "credentials that are not YAML": ("credentials_x.yml", "s3: {key: a\n", "credentials_x.yml, line 2, column 1: expected ',' or '}'"),
    "globals that are not YAML": ("globals_x.yml", "data: [\n", "globals_x.yml, line 2, column 1: expected the node content"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", YAML)
def test_a_mistake_in_a_yaml_file(project, mistake):
    name, text, message = YAML[mistake]
    file = project / "conf/smoke" / name
    if name.startswith("catalog"):
        block = project / "conf/smoke/parameters_mine.yml"
        block.write_text(DATASET)
    else:
        block = file
    file.write_text(text)
    try:
        is_one_message(
            kedro_run("--pipelines=samples.mine" if "mine" in text else "--pipelines=simulate"), message
        )
    finally:
        file.unlink()
        block.unlink(missing_ok=True)


COMMANDS = {
    "regstry list simulated": (2, "regstry is not a command; the commands are check, download, explain, export, plan, registry, results, serve; did you mean registry?"),
    "registry lst simulated": (2, "lst is not a command; the commands are list, promote, rollback, show; did you mean list?"),
    "registry list simulatd": (1, "simulatd is not a dataset; the datasets are simulated"),
    "registry show simulated.dinn": (1, "'simulated.dinn': expected DATASET.MODEL, such as simulated.din; the models are asvd, lr"),
    "registry show simulated.din": (1, "simulated.din: no version serves yet; run `kedro run --pipelines=retrain.simulated.din`"),
    "registry show simulated.din --env=smoke": (1, "run `kedro run --pipelines=retrain.simulated.din --env=smoke`"),
    "registry promote simulated.din v1": (1, "there is no version v1; existing versions: none"),
    "registry rollback simulated": (1, "'simulated': expected DATASET.MODEL"),
    "registry list simulated --env smok": (1, "--env: smok is not an environment"),
    "registry list simulated --evn=smoke": (2, "No such option '--evn'. Did you mean '--env'?"),
    "explain simulated.din": (2, "Missing option '--user'"),
    "download movielens_2m": (2, "movielens_2m is not a public dataset; the datasets are alibaba_ads"),
    "download": (2, "Missing argument 'NAME'"),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistake_with_deep_interest(command):
    result = CliRunner().invoke(cli, command.split())
    code, message = COMMANDS[command]
    is_one_message(result, message)
    assert result.exit_code == code


def test_a_command_outside_a_project_says_where_to_go(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["registry", "list", "simulated"])
    is_one_message(result, f"{tmp_path} is not in a Kedro project; change to the project's folder")


def test_an_interrupted_run_says_that_the_same_command_resumes(monkeypatch):
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(KedroSession, "run", interrupt)
    result = kedro_run()
    assert result.exit_code == 130
    assert result.stderr == "\ninterrupted; finished work is kept, and the same command resumes\n"


def test_an_archive_of_the_configuration_has_to_be_unpacked(tmp_path):
    archive = tmp_path / "conf.tar.gz"
    archive.touch()
    message = f"--conf-source: {archive} is an archive, expected a folder; unpack it (tar -xzf {archive})"
    is_one_message(kedro_run(f"--conf-source={archive}"), message)


@pytest.mark.parametrize("name", ["shop [2]", "shop {2}", "shop?"])
def test_a_path_that_kedro_reads_as_a_pattern_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(make_project(tmp_path / name))
    is_one_message(kedro_run("--pipelines=simulate"), "the path of the project contains", "rename the folder")


def test_a_path_with_blanks_is_not_a_mistake(tmp_path, monkeypatch):
    project = make_project(tmp_path / "my shop (2)")
    monkeypatch.chdir(project)
    assert kedro_run("--pipelines=simulate").exit_code == 0
    assert list(Path(project).glob("data/smoke/01_raw/simulated/**/impressions.parquet"))
