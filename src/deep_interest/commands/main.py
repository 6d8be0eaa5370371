"""The command ``deep-interest``: everything that is not a pipeline; pipelines run with ``kedro run``."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from deep_interest.errors import InputError
from deep_interest.process import prepare_process
from deep_interest.sources.downloads import (
    DEFAULT_RAW_ROOT,
    DOWNLOADS,
    MANUAL_DOWNLOADS,
    RAW_ROOT_VARIABLE,
    raw_root,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: that of the process) and return the exit status, 1 for an error."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except InputError as error:
        _write(f"error: {error}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        _write("interrupted; run the same command again to resume", sys.stderr)
        return 130
    return 0


def run() -> None:
    """Run the command and exit without the interpreter's clean-up, in which DuckDB reports objects that an error left open."""
    prepare_process()
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deep-interest", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    download = commands.add_parser(
        "download", help="download the raw files of a public dataset; an interrupted download resumes"
    )
    download.add_argument(
        "name",
        metavar="NAME",
        choices=sorted([*DOWNLOADS, *MANUAL_DOWNLOADS]),
        help=", ".join([*DOWNLOADS, *MANUAL_DOWNLOADS]),
    )
    download.add_argument(
        "--to",
        metavar="DIR",
        help=f"root folder of the raw files (default: ${RAW_ROOT_VARIABLE} or {DEFAULT_RAW_ROOT})",
    )
    download.set_defaults(run=_download)
    check = commands.add_parser(
        "check", help="read a dataset's raw files and describe their contents, without training anything"
    )
    check.add_argument(
        "dataset", metavar="DATASET", help="a dataset of the configuration, such as movielens_1m"
    )
    check.add_argument("--env", help="configuration environment, as in `kedro run --env`")
    check.set_defaults(run=_check)
    explain = commands.add_parser(
        "explain",
        help="show which of a user's behaviours a prediction rests on, as a table and a plot",
    )
    explain.add_argument(
        "experiment", metavar="DATASET.MODEL", help="a trained model, such as amazon_beauty.din"
    )
    explain.add_argument("--user", required=True, metavar="U", help="user id in the source")
    explain.add_argument("--candidate", required=True, metavar="C", help="item id in the source")
    explain.add_argument(
        "--top", type=int, default=15, metavar="N", help="number of behaviours in the table (default: 15)"
    )
    explain.add_argument(
        "--plot", metavar="FILE", help="PNG file of the plot (default: a file under data/08_reporting)"
    )
    explain.add_argument("--env", help="configuration environment, as in `kedro run --env`")
    explain.set_defaults(run=_explain)
    _add_registry(commands)
    return parser


def _add_registry(commands: Any) -> None:
    registry = commands.add_parser(
        "registry", help="list the versions of a retrained model, show one, promote one, or roll back"
    )
    actions = registry.add_subparsers(metavar="ACTION", required=True)
    for name, description, version in (
        ("list", "list the versions and mark the champion, the one that serves", None),
        ("show", "print the manifest of a version (default: the champion) as JSON", "?"),
        ("promote", "make a version the champion, whatever the gate decided", 1),
        ("rollback", "make the previous champion the champion again", None),
    ):
        action = actions.add_parser(name, help=description)
        action.add_argument(
            "experiment",
            metavar="DATASET[.MODEL]" if name == "list" else "DATASET.MODEL",
            help="a retrained model, such as simulated.din",
        )
        if version:
            action.add_argument("version", metavar="VERSION", nargs="?" if version == "?" else None)
        action.add_argument("--env", help="configuration environment, as in `kedro run --env`")
        action.set_defaults(run=_registry, action=name)


def _download(arguments: argparse.Namespace) -> None:
    from deep_interest.sources.fetch import fetch  # noqa: PLC0415  # imports requests

    if arguments.name in MANUAL_DOWNLOADS:
        page, folder = MANUAL_DOWNLOADS[arguments.name]
        raise InputError(
            f"{arguments.name}: the files are only available on {page}; download them there and put them into "
            f"{raw_root(arguments.to) / folder}"
        )
    dataset = DOWNLOADS[arguments.name]
    _write(f"{arguments.name}: description and licence at {dataset.page}")
    for file in dataset.files:
        fetch(file, raw_root(arguments.to), report=_write)


def _check(arguments: argparse.Namespace) -> None:
    from deep_interest.commands.check import check_dataset  # noqa: PLC0415  # imports Kedro

    for line in check_dataset(arguments.dataset, env=arguments.env):
        _write(line)


def _registry(arguments: argparse.Namespace) -> None:
    from deep_interest.commands import registry  # noqa: PLC0415  # imports Kedro

    experiment, env = arguments.experiment, arguments.env
    if arguments.action == "list":
        for line in registry.list_versions(experiment, env=env):
            _write(line)
    elif arguments.action == "show":
        _write(registry.show_version(experiment, arguments.version, env=env))
    elif arguments.action == "promote":
        _write(registry.promote(experiment, arguments.version, env=env))
    else:
        _write(registry.rollback(experiment, env=env))


def _explain(arguments: argparse.Namespace) -> None:
    from deep_interest.commands.explain import explain_prediction  # noqa: PLC0415  # imports torch and Kedro

    explain_prediction(
        arguments.experiment, arguments.user, arguments.candidate, top=arguments.top, plot=arguments.plot, env=arguments.env,
        write=_write,
    )  # fmt: skip


def _write(line: str, stream: TextIO | None = None) -> None:
    (stream or sys.stdout).write(f"{line}\n")


if __name__ == "__main__":
    run()
