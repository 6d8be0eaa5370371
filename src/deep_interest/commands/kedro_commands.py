"""Kedro's commands ``run`` and ``registry`` with one message per error instead of a traceback."""

import re
from pathlib import Path
from typing import Any

import click
import yaml
from kedro.framework.cli.project import run as kedro_run
from kedro.framework.cli.registry import registry as kedro_registry
from kedro.utils import find_kedro_project

from deep_interest.messages.configuration import Configuration, open_configuration
from deep_interest.messages.exits import one_message
from deep_interest.messages.selection import missing_inputs, selection_message, unknown_pipeline
from deep_interest.pipeline_registry import register_pipelines

_LIST_ADVICE = (
    "Commas separate parameters and = their values; separate the items of a list by blanks: "
    "--params='training.seeds=1 2 3'"
)


class _Run(click.Command):
    """``kedro run``: Kedro's own options, plain messages, and an exit code for Ctrl-C."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "option: Item" in error.message or "Parameter key" in error.message:
                raise click.UsageError(f"{error.message}\n{_LIST_ADVICE}", error.ctx) from error
            raise

    def invoke(self, ctx: click.Context) -> Any:
        options = ctx.params

        def explain(error: Exception) -> str | None:
            if isinstance(error, AttributeError) and "kedro.runner" in str(error):
                return f"--runner: {options['runner']} is not a runner; choose SequentialRunner, ThreadRunner or ParallelRunner"
            return _selection(error, options)

        with one_message(lambda: _configuration(options), explain=explain, env=lambda: options["env"]):
            return super().invoke(ctx)


class _Registry(click.Group):
    """``kedro registry``."""

    def invoke(self, ctx: click.Context) -> Any:
        with one_message(explain=_unknown_pipeline):
            return super().invoke(ctx)


run = _Run("run", params=kedro_run.params, callback=kedro_run.callback, help=kedro_run.help)


@click.command("list", help=kedro_registry.commands["list"].help)
def list_names() -> None:
    """Write what Kedro's command writes, but build no pipeline for it."""
    click.echo(yaml.dump(sorted(register_pipelines())))


registry = _Registry(
    "registry", commands={**kedro_registry.commands, "list": list_names}, help=kedro_registry.help
)


def _unknown_pipeline(error: Exception) -> str | None:
    """Describe the name that ``kedro registry describe`` does not know."""
    found = re.match(r"'([^']*)' pipeline not found", str(error))
    return unknown_pipeline(found[1], register_pipelines().all_names()) if found else None


def _selection(error: Exception, options: dict[str, Any]) -> str | None:
    text = str(error)
    if isinstance(error, ValueError) and text.startswith("Pipeline input(s)"):
        return missing_inputs(text, options, register_pipelines())
    if not isinstance(error, ValueError) or not text.startswith(
        ("Failed to find the pipeline", "Pipeline does not contain", "Pipeline contains no nodes")
    ):
        return None
    return selection_message(options, register_pipelines()) or text


def _configuration(options: dict[str, Any]) -> Configuration | None:
    """Read the configuration of the run again, for the files and lines of a message."""
    project = find_kedro_project(Path.cwd())
    if project is None:
        return None
    return open_configuration(
        project,
        env=options.get("env"),
        conf_source=options.get("conf_source"),
        parameters=options.get("params"),
    )
