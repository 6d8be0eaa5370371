"""Resolve shell commands without running them: programs, options, arguments, pipelines and parameters exist.

Each function raises `UnresolvedError` or the error that the program would raise.
"""

import ast
import importlib.metadata
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from kedro.config import OmegaConfigLoader
from kedro.framework.cli.catalog import catalog_cli
from kedro.framework.cli.project import project_group
from kedro.framework.cli.registry import registry_cli
from kedro.validation import ParameterValidator
from support.project import PROJECT
from torch.distributed.run import get_args_parser

from deep_interest.commands.main import cli as deep_interest_cli
from deep_interest.commands.main import main
from deep_interest.experiments import datasets_of
from deep_interest.pipeline_registry import register_pipelines
from deep_interest.sources.downloads import DOWNLOADS, MANUAL_DOWNLOADS


class UnresolvedError(Exception):
    """Part of a command does not exist."""


def require(condition: Any, message: str) -> None:
    if not condition:
        raise UnresolvedError(message)


def resolve_kedro(arguments: Sequence[str]) -> None:
    """Parse a ``kedro`` command with Kedro's own parsers; for ``kedro run``, validate pipelines and parameters."""
    command: click.Command = click.Group(commands=_kedro_commands())
    parent = context = click.Context(command, info_name="kedro")
    rest = list(arguments)
    while isinstance(command, click.Group):
        require(rest, f"{context.command_path}: a subcommand is missing")
        _, command, rest = command.resolve_command(context, rest)
        parent, context = context, click.Context(command, parent=context, info_name=command.name)
    context = command.make_context(command.name, rest, parent=parent)
    if command is project_group.commands["run"]:
        resolve_run(context.params)


@cache
def _kedro_commands() -> dict[str, click.Command]:
    groups = [project_group, registry_cli, catalog_cli]
    for group in ("kedro.global_commands", "kedro.project_commands"):
        groups += [point.load() for point in importlib.metadata.entry_points(group=group)]
    commands = {name: command for group in groups for name, command in group.commands.items()}
    return commands | {"deep-interest": deep_interest_cli}


def resolve_run(options: Mapping[str, Any]) -> None:
    """Build the pipelines of ``kedro run`` and validate its parameters as Kedro does before the run."""
    pipelines, env, params = _pipelines(), options["env"], options["params"]
    require(env is None or (PROJECT / "conf" / env).is_dir(), f"--env: conf/{env} does not exist")
    is_filtered = bool(options["tags"] or options["namespaces"])
    names = options["pipelines"] or (["simulated"] if is_filtered else _pipelines_of(params))
    for name in names:
        require(name in pipelines, f"--pipelines: {name} does not exist")
        if is_filtered:
            pipelines[name].filter(
                tags=options["tags"] or None, node_namespaces=options["namespaces"] or None
            )
    if params or env:
        configured = _parameters(env)
        merged = _merged(configured, params)
        unknown = [key for key in params if key not in configured]
        require(not unknown, f"--params: {', '.join(unknown)} does not exist")
        datasets_of(merged["datasets"])
        ParameterValidator({name: pipelines[name] for name in names}).validate_raw_params(merged)


def _merged(parameters: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those of the command line, block by block, as Kedro merges them."""
    return {**parameters} | {
        key: _merged(parameters[key], value)
        if isinstance(value, Mapping) and isinstance(parameters.get(key), Mapping)
        else value
        for key, value in changes.items()
    }


@cache
def _pipelines() -> Any:
    return register_pipelines()


@cache
def _parameters(env: str | None) -> dict[str, Any]:
    loader = OmegaConfigLoader(
        str(PROJECT / "conf"), base_env="base", default_run_env=env or "base", env=env or "base",
        merge_strategy={"parameters": "soft"},
    )  # fmt: skip
    parameters: dict[str, Any] = loader["parameters"]
    return parameters


def _pipelines_of(params: Mapping[str, Any]) -> list[str]:
    """Return a small pipeline that takes the parameters of a text which names no pipeline."""
    keys = list(params) or ["training"]
    if "datasets" in keys:
        return [f"samples.{dataset}" for dataset in params["datasets"]]
    return {"retraining": ["retrain"], "tuning": ["tune.simulated.din"], "backtest": ["backtest"]}.get(
        keys[0], ["simulated.din"]
    )


def resolve_deep_interest(arguments: Sequence[str]) -> None:
    """Check subcommand, options and number of arguments against the command's help, and names against the project."""
    words = [word for word in arguments if not word.startswith("-")]
    subcommand = words[: 2 if words[:1] == ["registry"] else 1]
    help_text = _help(tuple(subcommand))
    options = [word.partition("=")[0] for word in arguments if word.startswith("-")]
    unknown = [option for option in options if not re.search(rf"(?<!\S){option}\b", help_text)]
    require(not unknown, f"options do not exist: {', '.join(unknown)}")
    values = [word for option, word in pairwise(arguments) if option.startswith("--")]
    positional = [word for word in words[len(subcommand) :] if word not in values]
    usage = re.sub(r"\[-[^]]*\]|\[OPTIONS\]|--\w+ \w+", "", " ".join(help_text.split("\n\n")[0].split()))
    expected = re.findall(r"\[?[A-Z][\w.\[\]]*", usage.partition(subcommand[-1])[2])
    if positional:  # otherwise the text only mentions the command
        optional = sum(word.startswith("[") for word in expected)
        counts = range(len(expected) - optional, len(expected) + 1)
        require(
            len(positional) in counts, f"{len(positional)} arguments, expected {' '.join(expected) or 'none'}"
        )
    if positional and subcommand == ["download"]:
        require(positional[0] in DOWNLOADS | MANUAL_DOWNLOADS, f"{positional[0]} cannot be downloaded")
    elif positional:
        require(positional[0] in _pipelines(), f"{positional[0]} does not exist")


@cache
def _help(subcommand: tuple[str, ...]) -> str:
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        try:
            status = main([*subcommand, "--help"])
        except SystemExit as stop:
            status = int(stop.code or 0)
    require(status == 0, output.getvalue())
    return output.getvalue()


def resolve_make(arguments: Sequence[str]) -> None:
    """Check the targets, the variables and the dataset against the Makefile."""
    makefile = (PROJECT / "Makefile").read_text()
    for word in arguments:
        name, _, value = word.partition("=")
        require(
            re.search(rf"^{name} *(\?=|:(?!=))" if value else rf"^{name}:", makefile, re.MULTILINE),
            f"{word}: not in the Makefile",
        )
        if name == "DATASETS":
            require(value in _pipelines(), f"{value} is not a dataset")


def resolve_python(arguments: Sequence[str]) -> None:
    """Check the script and its options, or the arguments of pytest."""
    rest = list(arguments)
    if "-m" in rest:
        module = rest[len(rest) - 1 - rest[::-1].index("-m") + 1]
        if module == "deep_interest":
            return resolve_kedro(["run", *rest[rest.index("deep_interest") + 1 :]])
        require(module == "pytest", f"python -m {module} is not known here")
        return resolve_pytest(rest[rest.index("pytest") + 1 :])
    if rest[0] == "-c":
        compile(rest[1], "-c", "exec")
        return None
    script = PROJECT / rest[0]
    require(script.is_file(), f"{rest[0]} does not exist")
    return _check_options(script, rest[1:])


def resolve_script(name: str, arguments: Sequence[str]) -> None:
    """Check a script that is named without its folder."""
    scripts = [path for folder in ("benchmarks", "tools") for path in (PROJECT / folder).rglob(name)]
    require(len(scripts) == 1, f"{name} is not the name of one script")
    _check_options(scripts[0], arguments)


def _check_options(script: Path, arguments: Sequence[str]) -> None:
    known = set(_options(script))
    unknown = [word for word in arguments if word.startswith("--") and word.partition("=")[0] not in known]
    require(not unknown, f"{script.name} has no {', '.join(unknown)}; it has {', '.join(sorted(known))}")


def _options(script: Path) -> Iterator[str]:
    """Yield the options that a script adds to its parser."""
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and str(argument.value).startswith("-"):
                    yield str(argument.value)


def resolve_pytest(arguments: Sequence[str]) -> None:
    """Check that the paths of tests exist."""
    paths = [word for i, word in enumerate(arguments) if word.startswith("tests")]
    require(paths, "no path of tests")
    for path in paths:
        require((PROJECT / path.partition("::")[0]).exists(), f"{path} does not exist")


def resolve_torchrun(arguments: Sequence[str]) -> None:
    """Resolve ``torchrun OPTIONS -m kedro …``."""
    parsed, unknown = get_args_parser().parse_known_args(arguments)
    require(not unknown, f"torchrun: {unknown}")
    require(parsed.module and parsed.training_script == "kedro", f"torchrun: {parsed.training_script}")
    resolve_kedro(parsed.training_script_args)


def resolve_docker(arguments: Sequence[str]) -> None:
    """Resolve what a container runs; its entry point is ``kedro run``."""
    require(arguments[0] in ("build", "compose", "run"), f"docker {arguments[0]} is not known here")
    if arguments[0] == "compose":
        require(
            (PROJECT / arguments[arguments.index("-f") + 1]).is_file(), f"{arguments} names a missing file"
        )
    if arguments[0] == "build" and "--build-arg" in arguments:
        name = arguments[arguments.index("--build-arg") + 1].partition("=")[0]
        require(
            f"ARG {name}=" in (PROJECT / "Dockerfile").read_text(), f"the Dockerfile has no argument {name}"
        )
    if arguments[0] == "run":
        resolve_kedro(["run", *arguments[arguments.index("deep-interest") + 1 :]])


def resolve_nightly(arguments: Sequence[str]) -> None:
    """Check that the experiment can be retrained."""
    require((PROJECT / "deploy/nightly.sh").is_file(), "deploy/nightly.sh does not exist")
    for experiment in arguments:
        resolve_kedro(["run", f"--pipelines=retrain.{experiment},score.{experiment}"])


def resolve_variables(variables: Sequence[tuple[str, str]]) -> None:
    """Check that environment variables are read by the project, and the names in them."""
    sources = _sources()
    for name, value in variables:
        require(
            name.startswith("NUMBA_") or name == "KEDRO_ENV" or f'"{name}"' in sources, f"{name} is not read"
        )
        if name in ("DEEP_INTEREST_DATASETS", "DEEP_INTEREST_PIPELINES"):
            require(value in _pipelines(), f"{name}: {value} does not exist")
        if name == "KEDRO_ENV":
            require((PROJECT / "conf" / value).is_dir(), f"{name}: conf/{value} does not exist")


@cache
def _sources() -> str:
    return "".join(file.read_text("utf-8") for file in (PROJECT / "src").rglob("*.py"))
