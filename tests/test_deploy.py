"""The files of ``deploy/``: what each scheduler runs after each exit code of retraining.

``end_to_end/test_retraining.py`` runs ``deploy/nightly.sh`` with real models.
"""

import ast
import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from deep_interest.commands.main import serve
from deep_interest.pipeline_registry import register_pipelines
from deep_interest.retraining.summary import EXIT_CODES
from deep_interest.service.app import PUBLIC_PATHS

PROJECT = Path(__file__).parents[1]
DEPLOY = PROJECT / "deploy"
HOME = "/srv/deep-interest"
SUCCESSFUL = {"promoted", "nothing_new", "refused"}
KEDRO = """#!/bin/sh
echo "$@" >> calls.txt
case $2 in --pipelines=retrain.*) exit {code} ;; esac
"""


def install(folder: Path, code: int) -> None:
    """Install ``deploy/`` and a ``kedro`` that records its arguments and whose retraining ends with an exit code."""
    shutil.copytree(DEPLOY, folder / "deploy")
    kedro = folder / ".venv/bin/kedro"
    kedro.parent.mkdir(parents=True)
    kedro.write_text(KEDRO.format(code=code))
    kedro.chmod(0o755)


def calls(folder: Path) -> list[str]:
    return (folder / "calls.txt").read_text().splitlines()


def airflow_tasks() -> dict[str, dict[str, str]]:
    """Return ``{task id: arguments}`` of the operators of the DAG."""
    tree = ast.parse((DEPLOY / "airflow_dag.py").read_text())
    constants = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    operators = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "BashOperator"
    ]
    tasks = [
        {key.arg: eval(ast.unparse(key.value), {}, constants) for key in call.keywords if key.arg}
        for call in operators
    ]
    return {task["task_id"]: task for task in tasks}


@pytest.mark.parametrize("outcome", EXIT_CODES)
def test_the_nightly_script_scores_unless_retraining_failed(tmp_path, outcome):
    code = EXIT_CODES[outcome]
    install(tmp_path, code)
    done = subprocess.run([tmp_path / "deploy/nightly.sh", "shop.base"], cwd="/", check=False)
    retraining = ["run --pipelines=retrain.shop.base"]
    if outcome in SUCCESSFUL:
        assert (done.returncode, calls(tmp_path)) == (0, [*retraining, "run --pipelines=score.shop.base"])
    else:
        assert (done.returncode, calls(tmp_path)) == (code, retraining)


@pytest.mark.parametrize("outcome", EXIT_CODES)
def test_the_retraining_task_of_airflow_fails_only_if_retraining_failed(tmp_path, outcome):
    code = EXIT_CODES[outcome]
    install(tmp_path, code)
    task = airflow_tasks()["retrain"]
    assert task["cwd"] == HOME
    done = subprocess.run(["bash", "-c", task["bash_command"]], cwd=tmp_path, check=False)
    assert done.returncode == (0 if outcome in SUCCESSFUL else code)
    assert calls(tmp_path) == ["run --pipelines=retrain.simulated.din"]


def test_airflow_scores_after_retraining():
    tasks = airflow_tasks()
    assert list(tasks) == ["retrain", "score"]
    assert tasks["score"]["bash_command"] == ".venv/bin/kedro run --pipelines=score.simulated.din"
    assert re.search(r"^ +retrain >> score$", (DEPLOY / "airflow_dag.py").read_text(), re.MULTILINE)


def test_cron_and_systemd_run_the_nightly_script():
    service = ConfigParser(strict=False)
    service.optionxform = str
    service.read(DEPLOY / "deep-interest-retrain.service")
    (line,) = [line for line in (DEPLOY / "crontab").read_text().splitlines() if not line.startswith("#")]
    for command in (service["Service"]["ExecStart"], line.split(None, 5)[5].split(">>")[0]):
        script, experiment = command.split()
        file = PROJECT / Path(script).relative_to(HOME)
        assert file.stat().st_mode & 0o111
        assert f"retrain.{experiment}" in register_pipelines()


def test_the_timer_starts_the_service():
    assert (DEPLOY / "deep-interest-retrain.timer").with_suffix(".service").exists()


def serve_commands() -> dict[str, list[str]]:
    """Return the command lines of ``deep-interest serve`` in the files of ``deploy/``."""
    service = ConfigParser(strict=False)
    service.optionxform = str
    service.read(DEPLOY / "deep-interest-serve.service")
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    return {
        "systemd": service["Service"]["ExecStart"].removeprefix(f"{HOME}/.venv/bin/").split(),
        "compose": compose["services"]["serve"]["entrypoint"],
        "kubernetes": kubernetes()["Deployment"]["spec"]["template"]["spec"]["containers"][0]["command"],
    }


def kubernetes() -> dict[str, dict]:
    """Return the resources of the Kubernetes manifest by kind."""
    return {of["kind"]: of for of in yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text())}


@pytest.mark.parametrize("file", ["systemd", "compose", "kubernetes"])
def test_the_files_serve_with_options_that_exist(file):
    program, command, experiment, *options = serve_commands()[file]
    assert (program, command) == ("deep-interest", "serve")
    assert f"retrain.{experiment}" in register_pipelines()
    context = serve.make_context("serve", [experiment, *options])
    exposed = context.params["host"] not in (None, "127.0.0.1")
    assert exposed == (file != "systemd")
    if file == "compose":
        assert context.params["token_file"] == "/run/secrets/token"


@pytest.mark.parametrize("kind", ["Deployment", "Service", "PersistentVolumeClaim"])
def test_the_kubernetes_manifest_is_valid(kind):
    kubernetes_validate.validate(kubernetes()[kind], kubernetes_validate.latest_version(), strict=True)


def test_the_validation_of_the_manifest_can_fail():
    broken = kubernetes()["Service"] | {"spec": {"ports": [{"port": "http"}]}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)


def test_containers_run_without_root_and_get_the_token_as_a_secret():
    pod = kubernetes()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    (variable,) = container["env"]
    assert variable["name"] == "DEEP_INTEREST_TOKEN"
    assert "secretKeyRef" in variable["valueFrom"]
    service = yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]["serve"]
    assert service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_probes_ask_paths_that_need_no_token():
    (container,) = kubernetes()["Deployment"]["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in PUBLIC_PATHS
