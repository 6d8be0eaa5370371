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
from support.airflow_standin import read_dag
from torch.distributed.run import get_args_parser

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


def test_a_night_on_a_cluster_has_its_tasks_in_order():
    dag = read_dag(DEPLOY / "airflow_cluster_dag.py")
    assert dag.upstream == {"samples": set(), "train_0": {"samples"}, "retrain": set(), "score": {"retrain"}}
    assert {task.cwd for task in dag.tasks.values()} == {HOME}
    assert dag.options["catchup"] is False


def test_the_tasks_of_a_cluster_run_what_exists():
    tasks = read_dag(DEPLOY / "airflow_cluster_dag.py").tasks
    train = tasks["train_0"].bash_command.removeprefix(".venv/bin/torchrun ").split()
    torchrun = get_args_parser().parse_args(train)
    assert (torchrun.nnodes, torchrun.nproc_per_node, torchrun.module, torchrun.training_script) == (
        "1", "2", True, "kedro",
    )  # fmt: skip
    commands = [tasks[name].bash_command.split(";")[0].split() for name in ("samples", "retrain", "score")]
    commands.append([".venv/bin/kedro", *torchrun.training_script_args])
    for program, command, *options in commands:
        assert (program, command) == (".venv/bin/kedro", "run")
        given = dict(option.removeprefix("--").split("=") for option in options)
        assert set(given) <= {"env", "pipelines", "namespaces"}
        assert given["pipelines"] in register_pipelines()
        assert (PROJECT / "conf" / given.get("env", "base")).is_dir()


@pytest.mark.parametrize("outcome", EXIT_CODES)
def test_the_gate_of_a_cluster_fails_only_if_retraining_failed(tmp_path, outcome):
    code = EXIT_CODES[outcome]
    install(tmp_path, code)
    task = read_dag(DEPLOY / "airflow_cluster_dag.py").tasks["retrain"]
    done = subprocess.run(["bash", "-c", task.bash_command], cwd=tmp_path, check=False)
    assert done.returncode == (0 if outcome in SUCCESSFUL else code)


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
        "kubernetes": pods()["kubernetes"]["containers"][0]["command"],
        "kserve": pods()["kserve"]["containers"][0]["command"],
    }


def resources(file: str) -> dict[str, dict]:
    """Return the resources of a manifest by kind."""
    return {of["kind"]: of for of in yaml.safe_load_all((DEPLOY / file).read_text())}


def kubernetes() -> dict[str, dict]:
    return resources("kubernetes.yml")


# Fields of a predictor that are not those of a pod: ComponentExtensionSpec in pkg/apis/serving/v1beta1/component.go of
# github.com/kserve/kserve. The others are inlined there: those of a PodSpec, and `model`, `workerSpec` and one field for each framework.
# No package on PyPI has the CRD, config/crd/full/serving.kserve.io_inferenceservices.yaml.
PREDICTOR_FIELDS = {
    "minReplicas": int, "maxReplicas": int, "scaleTarget": int, "scaleMetric": str, "containerConcurrency": int, "timeout": int,
    "canaryTrafficPercent": int, "logger": dict, "batcher": dict, "labels": dict, "annotations": dict, "deploymentStrategy": dict,
    "autoScaling": dict,
}  # fmt: skip


def inference_service() -> dict:
    return resources("kserve.yml")["InferenceService"]


def pods() -> dict[str, dict]:
    """Return the pods of both manifests: all fields of the predictor but KServe's own are those of its pod."""
    predictor = inference_service()["spec"]["predictor"]
    return {
        "kubernetes": kubernetes()["Deployment"]["spec"]["template"]["spec"],
        "kserve": {name: of for name, of in predictor.items() if name not in PREDICTOR_FIELDS},
    }


@pytest.mark.parametrize("file", ["systemd", "compose", "kubernetes", "kserve"])
def test_the_files_serve_with_options_that_exist(file):
    program, command, experiment, *options = serve_commands()[file]
    assert (program, command) == ("deep-interest", "serve")
    assert f"retrain.{experiment}" in register_pipelines()
    context = serve.make_context("serve", [experiment, *options])
    exposed = context.params["host"] not in (None, "127.0.0.1")
    assert exposed == (file != "systemd")
    if file == "compose":
        assert context.params["token_file"] == "/run/secrets/token"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Deployment", "Service", "PersistentVolumeClaim"])
def test_the_kubernetes_manifest_is_valid(kind):
    kubernetes_validate.validate(kubernetes()[kind], kubernetes_validate.latest_version(), strict=True)


def test_the_validation_of_the_manifest_can_fail():
    broken = kubernetes()["Service"] | {"spec": {"ports": [{"port": "http"}]}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)


def deployment(of_predictor: dict) -> dict:
    """Return the Deployment that KServe makes of a predictor, without Knative."""
    own = {name: of for name, of in of_predictor.items() if name in PREDICTOR_FIELDS}
    pod = {name: of for name, of in of_predictor.items() if name not in PREDICTOR_FIELDS}
    labels = {"app": "isvc.deep-interest-predictor"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "deep-interest-predictor"},
        "spec": {
            "replicas": own["minReplicas"],
            "strategy": own["deploymentStrategy"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def validate(resource: dict) -> None:
    kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)


def test_the_inference_service_has_the_fields_of_kserve():
    service = inference_service()
    assert (service["apiVersion"], service["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    assert set(service) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(service["spec"]) == {"predictor"}  # of predictor (required), transformer, explainer, canary
    predictor = service["spec"]["predictor"]
    for name, kind in PREDICTOR_FIELDS.items():
        assert isinstance(predictor.get(name, kind()), kind)
    assert predictor["minReplicas"] <= predictor["maxReplicas"]


def test_the_pod_of_the_inference_service_is_valid():
    validate(deployment(inference_service()["spec"]["predictor"]))
    validate(resources("kserve.yml")["PersistentVolumeClaim"])
    broken = inference_service()["spec"]["predictor"]
    broken["containers"][0]["livenessProb"] = broken["containers"][0].pop("livenessProbe")
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(deployment(broken))


def test_kserve_finds_the_container_its_protocol_and_its_volume():
    (container,) = pods()["kserve"]["containers"]
    assert container["name"] == "kserve-container"  # constants.InferenceServiceContainerName
    assert {"name": "PROTOCOL", "value": "v2"} in container["env"]  # constants.CustomSpecProtocolEnvVarKey
    (port,) = container["ports"]
    assert port["name"] in ("http1", "h2c")  # the only names that Knative allows
    claim = next(of for of in pods()["kserve"]["volumes"] if "persistentVolumeClaim" in of)
    assert (
        claim["persistentVolumeClaim"]["claimName"]
        == resources("kserve.yml")["PersistentVolumeClaim"]["metadata"]["name"]
    )
    assert resources("kserve.yml")["PersistentVolumeClaim"] == kubernetes()["PersistentVolumeClaim"]


@pytest.mark.parametrize("file", ["kubernetes", "kserve"])
def test_pods_run_without_root_with_limits_and_the_token_as_a_secret(file):
    pod = pods()[file]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert "memory" in container["resources"]["limits"]
    tokens = [of for of in container["env"] if of["name"] == "DEEP_INTEREST_TOKEN"]
    assert ["secretKeyRef" in of["valueFrom"] for of in tokens] == [True]


def test_the_composed_container_has_no_capabilities_and_a_local_port():
    service = yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]["serve"]
    assert service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


@pytest.mark.parametrize("file", ["kubernetes", "kserve"])
def test_probes_ask_paths_that_need_no_token(file):
    (container,) = pods()[file]["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in PUBLIC_PATHS


def test_prometheus_reads_the_service_of_the_compose_file_with_its_token():
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    (target,) = [target for config in job["static_configs"] for target in config["targets"]]
    service, port = target.split(":")
    assert f":{port}:{port}" in compose["services"][service]["ports"][0]
    token = job["authorization"]["credentials_file"]
    assert token in compose["services"][service]["entrypoint"]
    assert Path(token).name in compose["secrets"]
    assert all(Path(token).name in compose["services"][name]["secrets"] for name in (service, "prometheus"))
