"""The command ``deep-interest``: everything that is not a pipeline; pipelines run with ``kedro run``.

Each command imports what it needs when it runs, so that the small ones start fast.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

import deep_interest
from deep_interest.commands.completion import datasets, downloads, experiments, retrained
from deep_interest.errors import InputError, did_you_mean
from deep_interest.messages.exits import one_message
from deep_interest.process import prepare_process
from deep_interest.sources.downloads import (
    DEFAULT_RAW_ROOT,
    DOWNLOADS,
    MANUAL_DOWNLOADS,
    RAW_ROOT_VARIABLE,
    raw_root,
)


def _remember(ctx: click.Context, _: click.Parameter, env: str | None) -> str | None:
    """Keep the environment for the commands that an error advises."""
    ctx.meta["env"] = env
    return env


_ENV = click.option(
    "--env",
    "-e",
    metavar="ENV",
    help="Configuration environment, as in `kedro run --env`.",
    callback=_remember,
)


class PlainGroup(click.Group):
    """Group whose commands end with ``error: …`` and an exit code: 1 for an error, 2 for wrong usage, 130 for Ctrl-C."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with one_message(env=lambda: ctx.meta.get("env")):
                return super().invoke(ctx)
        except click.UsageError as error:
            _write_usage_error(error)
            ctx.exit(2)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; an unknown one is an error that names the similar and the existing ones."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            raise click.UsageError(
                f"{args[0]} is not a command; the commands are {', '.join(names)}{did_you_mean(args[0], names)}",
                ctx,
            )
        return super().resolve_command(ctx, args)


@click.group(cls=PlainGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(deep_interest.__version__, "--version", "-V", prog_name="deep-interest")
def cli() -> None:
    """Download, check and explain data and models, and manage the versions of retrained models.

    Pipelines run with `kedro run`.
    """


@cli.command()
@click.argument("name", shell_complete=downloads)
@click.option(
    "--to",
    metavar="DIR",
    help=f"Root folder of the raw files (default: ${RAW_ROOT_VARIABLE} or {DEFAULT_RAW_ROOT}).",
)
def download(name: str, to: str | None) -> None:
    """Download the raw files of a public dataset; an interrupted download resumes."""
    from deep_interest.sources.fetch import fetch  # noqa: PLC0415  # imports requests

    names = sorted([*DOWNLOADS, *MANUAL_DOWNLOADS])
    if name not in names:
        raise click.UsageError(
            f"NAME: {name} is not a public dataset; the datasets are {', '.join(names)}{did_you_mean(name, names)}",
            click.get_current_context(),
        )
    if name in MANUAL_DOWNLOADS:
        page, folder = MANUAL_DOWNLOADS[name]
        raise InputError(
            f"{name}: the files are only available on {page}; download them there and put them into {raw_root(to) / folder}"
        )
    dataset = DOWNLOADS[name]
    click.echo(f"{name}: description and licence at {dataset.page}")
    for file in dataset.files:
        fetch(file, raw_root(to), report=click.echo)


@cli.command()
@click.argument("dataset", shell_complete=datasets)
@click.option(
    "--interventions",
    is_flag=True,
    help="Also look for leaks: change one thing after the other and fit boosted trees again (minutes).",
)
@_ENV
def check(dataset: str, interventions: bool, env: str | None) -> None:
    """Read a dataset's raw files and describe their contents, without training a model for use."""
    from deep_interest.commands.check import check_dataset  # noqa: PLC0415  # imports Kedro

    for line in check_dataset(dataset, interventions=interventions, env=env):
        click.echo(line)


@cli.command()
@click.argument("dataset", shell_complete=datasets)
@click.option("--model", default="din", metavar="MODEL", help="Model to train (default: din).")
@click.option("--users", type=click.IntRange(1), metavar="N", help="Number of users (default: counted).")
@click.option("--items", type=click.IntRange(1), metavar="N", help="Number of items (default: counted).")
@click.option(
    "--behaviors", type=click.IntRange(1), metavar="N", help="Number of behaviours (default: counted)."
)
@click.option(
    "--samples", type=click.IntRange(1), metavar="N", help="Number of samples (default: by the protocol)."
)
@click.option(
    "--values", multiple=True, metavar="FEATURE=N", help="Number of values of a feature; can be repeated."
)
@click.option(
    "--days",
    type=click.IntRange(1),
    metavar="N",
    help="Days of the samples (default: retraining.window_days).",
)
@click.option(
    "--candidates",
    type=click.IntRange(1),
    default=1000,
    metavar="N",
    help="Candidates per user in scoring (default: 1000).",
)
@click.option("--memory", metavar="SIZE", help="Memory of the machine, such as 64GB (default: this one's).")
@click.option(
    "--cores", type=click.IntRange(1), metavar="N", help="Cores of the machine (default: this one's)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_ENV
def plan(
    dataset: str, model: str, values: tuple[str, ...], days: int | None, candidates: int, memory: str | None, cores: int | None,
    as_json: bool, env: str | None, **counts: int | None,
) -> None:  # fmt: skip
    """Estimate memory, disk and time of each stage of a dataset on one machine, and say which engine pays."""
    from deep_interest.commands.plan import print_plan  # noqa: PLC0415  # imports Kedro and torch

    for line in print_plan(
        dataset, model, counts=counts, values=values, memory=memory, cores=cores, days=days, candidates=candidates,
        as_json=as_json, env=env,
    ):  # fmt: skip
        click.echo(line)


@cli.command()
@click.argument("experiment", metavar="DATASET.MODEL", shell_complete=experiments)
@click.option("--user", required=True, metavar="U", help="User id in the source.")
@click.option("--candidate", required=True, metavar="C", help="Item id in the source.")
@click.option(
    "--top", type=int, default=15, metavar="N", help="Number of behaviours in the table (default: 15)."
)
@click.option(
    "--plot", metavar="FILE", help="PNG file of the plot (default: a file under data/08_reporting)."
)
@_ENV
def explain(experiment: str, user: str, candidate: str, top: int, plot: str | None, env: str | None) -> None:
    """Show which of a user's behaviours a prediction rests on, as a table and a plot."""
    from deep_interest.commands.explain import explain_prediction  # noqa: PLC0415  # imports torch and Kedro

    explain_prediction(experiment, user, candidate, top=top, plot=plot, env=env, write=click.echo)


@cli.command()
@click.argument("experiment", metavar="DATASET.MODEL", shell_complete=experiments)
@click.option(
    "--format",
    default="onnx",
    metavar="FORMAT",
    help="`onnx` or `pt2`, a torch.export program (default: onnx).",
)
@click.option(
    "--version",
    metavar="VERSION",
    help="Version of the registry, or `champion` (default: the model that `kedro run` has trained).",
)
@click.option("--seed", type=int, metavar="N", help="Seed of the fit (default: the first one).")
@click.option(
    "--out",
    metavar="FOLDER",
    help="Folder to write (default: data/06_models/DATASET/MODEL/export_FORMAT).",
)
@_ENV
def export(
    experiment: str, format: str, version: str | None, seed: int | None, out: str | None, env: str | None
) -> None:
    """Write a trained model, with its vocabularies, for ONNX Runtime or PyTorch: CTRs of many candidates for one user."""
    from deep_interest.commands.export import export_model  # noqa: PLC0415  # imports torch and Kedro

    export_model(experiment, format=format, version=version, seed=seed, out=out, env=env, write=click.echo)


@cli.command()
@click.argument("dataset", shell_complete=datasets)
@click.option(
    "--run", metavar="RUN", help="Show the results of this run: its id or the beginning of it, or `last`."
)
@click.option(
    "--table", metavar="TABLE", help="Table of the run, such as din_table4 (default: its first one)."
)
@click.option("--against", metavar="RUN", help="Run to compare with (default: the one before).")
@_ENV
def results(dataset: str, run: str | None, table: str | None, against: str | None, env: str | None) -> None:
    """List the runs of a dataset, or show the results of one and what has changed since the one before."""
    from deep_interest.commands.results import print_results  # noqa: PLC0415  # imports pandas and Kedro

    for line in print_results(dataset, run, table, against, env=env):
        click.echo(line)


@cli.command()
@click.argument("experiment", metavar="DATASET.MODEL", shell_complete=retrained)
@click.option(
    "--host", metavar="HOST", help="Address to listen on (default: 127.0.0.1); others need a token."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="PORT", help="Port to listen on (default: 8080)."
)
@click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="Number of worker processes (default: 1)."
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    metavar="N",
    help="Cores that each worker scores with (default: all cores, divided among the workers).",
)
@click.option(
    "--device",
    metavar="DEVICE",
    help="Device that scores: auto (a GPU if there is one), cpu, cuda, cuda:1 … (default: auto).",
)
@click.option(
    "--token-file", metavar="FILE", help="File with the bearer token (default: $DEEP_INTEREST_TOKEN)."
)
@click.option(
    "--events",
    metavar="URL",
    help="Redis server with the events: redis://HOST:PORT/DATABASE (default: SQLite).",
)
@click.option(
    "--events-password-file",
    metavar="FILE",
    help="File with the password of the Redis server (default: $DEEP_INTEREST_EVENTS_PASSWORD).",
)
@click.option(
    "--shadow", metavar="VERSION", help="Version that scores every ranking as well, for the request log."
)
@click.option(
    "--split",
    metavar="VERSION=SHARE",
    help="Version that serves a share of the users, such as 0.1, chosen by their ids.",
)
@click.option(
    "--explore",
    metavar="KIND=VALUE",
    help="Random order of a share of the requests (epsilon=0.05), or drawn by eCPM (softmax=TEMPERATURE), with propensities.",
)
@click.option(
    "--queue", type=click.IntRange(1), metavar="N", help="Requests of a worker that may wait (default: 32)."
)
@click.option("--max-body", type=click.IntRange(1), metavar="BYTES", help="Largest body (default: 1048576).")
@click.option(
    "--max-candidates", type=click.IntRange(1), metavar="N", help="Most candidates (default: 1000)."
)
@click.option(
    "--max-history",
    type=click.IntRange(1),
    metavar="N",
    help="Most behaviours in a request (default: 10000).",
)
@click.option(
    "--max-events", type=click.IntRange(1), metavar="N", help="Most events of a request (default: 1000)."
)
@click.option(
    "--log-requests",
    is_flag=True,
    default=None,
    help="Log the features and the scores of each ranking, for the parity pipeline.",
)
@click.option(
    "--access-log/--no-access-log", default=None, help="Log each request as a line of JSON (default: yes)."
)
@click.option(
    "--folder", metavar="DIR", help="Folder of snapshots and events (default: next to the registry)."
)
@_ENV
def serve(
    experiment: str,
    env: str | None,
    token_file: str | None,
    events_password_file: str | None,
    shadow: str | None,
    split: str | None,
    explore: str | None,
    **options: Any,
) -> None:
    """Serve the champion of a model: ranking over HTTP, and the Open Inference Protocol."""
    try:
        from deep_interest.commands.serve import parse_roles, read_token, serve_model  # noqa: PLC0415  # imports Kedro
        from deep_interest.service.event_store import check_address, read_password  # noqa: PLC0415
        from deep_interest.service.settings import EVENTS_PASSWORD_VARIABLE  # noqa: PLC0415
        from deep_interest.serving.exploration import Exploration  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise InputError(
            f'{error.name} is missing; install it with pip install "deep-interest[serve]"'
        ) from error

    given = {name: value for name, value in options.items() if value is not None}
    given["token"] = read_token(token_file)
    if explore is not None:
        given["explore"] = Exploration.parse(explore)
    if "events" in given:
        given["events"] = check_address(given["events"])
        given["events_password"] = read_password(events_password_file, EVENTS_PASSWORD_VARIABLE)
    serve_model(experiment, roles=parse_roles(shadow, split), options=given, env=env, write=click.echo)


@cli.group(cls=PlainGroup)
def registry() -> None:
    """List the versions of a retrained model, show one, promote one, or roll back."""


@registry.command("list")
@click.argument("experiment", metavar="DATASET[.MODEL]", shell_complete=retrained)
@_ENV
def list_versions(experiment: str, env: str | None) -> None:
    """List the versions and mark the champion, the one that serves."""
    from deep_interest.commands import registry as versions  # noqa: PLC0415  # imports Kedro

    for line in versions.list_versions(experiment, env=env):
        click.echo(line)


@registry.command()
@click.argument("experiment", metavar="DATASET.MODEL", shell_complete=retrained)
@click.argument("version", required=False)
@click.option("--card", is_flag=True, help="Print the model card instead.")
@_ENV
def show(experiment: str, version: str | None, card: bool, env: str | None) -> None:
    """Print the manifest of a version (default: the champion) as JSON, or its model card."""
    from deep_interest.commands import registry as versions  # noqa: PLC0415  # imports Kedro

    click.echo(versions.show_version(experiment, version, card=card, env=env))


@registry.command()
@click.argument("experiment", metavar="DATASET.MODEL", shell_complete=retrained)
@click.argument("version")
@_ENV
def promote(experiment: str, version: str, env: str | None) -> None:
    """Make a version the champion, whatever the gate decided."""
    from deep_interest.commands import registry as versions  # noqa: PLC0415  # imports Kedro

    click.echo(versions.promote(experiment, version, env=env))


@registry.command()
@click.argument("experiment", metavar="DATASET.MODEL", shell_complete=retrained)
@_ENV
def rollback(experiment: str, env: str | None) -> None:
    """Make the previous champion the champion again."""
    from deep_interest.commands import registry as versions  # noqa: PLC0415  # imports Kedro

    click.echo(versions.rollback(experiment, env=env))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: that of the process) and return the exit code."""
    try:
        status = cli.main(argv, prog_name="deep-interest", standalone_mode=False)
    except SystemExit as stop:  # of a command, or of shell completion
        return stop.code if isinstance(stop.code, int) else 1
    except click.UsageError as error:
        _write_usage_error(error)
        return 2
    except click.Abort:
        return 130
    return status if isinstance(status, int) else 0


def run() -> None:
    """Run the command and exit without the interpreter's clean-up, in which DuckDB reports objects that an error left open."""
    prepare_process()
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _write_usage_error(error: click.UsageError) -> None:
    command = error.ctx.command_path if error.ctx else "deep-interest"
    click.echo(f"error: {error.format_message()}\nTry `{command} --help`.", err=True)


if __name__ == "__main__":
    run()
