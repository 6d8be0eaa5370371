"""The command ``deep-interest``, for what is no pipeline; everything else is ``kedro``."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from deep_interest.errors import InputError
from deep_interest.process import prepare_process
from deep_interest.sources.downloads import BY_HAND, DEFAULT_RAW_ROOT, DOWNLOADS, RAW_ROOT_VARIABLE, raw_root


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (else the process's own); return the exit status, 1 for an error."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except InputError as error:
        _write(f"error: {error}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        _write("stopped; the same command goes on from there", sys.stderr)
        return 130
    return 0


def run() -> None:
    """The command itself: it ends at once, as DuckDB would tell at the interpreter's end of what an error has left behind."""
    prepare_process()
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deep-interest", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    download = commands.add_parser(
        "download", help="fetch a public dataset's raw files; an interrupted download goes on the next time"
    )
    download.add_argument(
        "name", metavar="NAME", choices=sorted([*DOWNLOADS, *BY_HAND]), help=", ".join([*DOWNLOADS, *BY_HAND])
    )
    download.add_argument(
        "--to",
        metavar="DIR",
        help=f"root of the raw files; else ${RAW_ROOT_VARIABLE}, else {DEFAULT_RAW_ROOT}",
    )
    download.set_defaults(run=_download)
    check = commands.add_parser(
        "check", help="read a dataset's raw files and say what is in them, before anything is trained"
    )
    check.add_argument("dataset", metavar="DATASET", help="a key of conf/base/parameters/datasets.yml")
    check.add_argument("--env", help="the configuration environment, as of kedro run")
    check.set_defaults(run=_check)
    explain = commands.add_parser(
        "explain",
        help="which of a user's behaviours a prediction rests on, as a table and a picture; in the project's folder",
    )
    explain.add_argument("row", metavar="DATASET.MODEL", help="a trained row, as amazon_beauty.din")
    explain.add_argument("--user", required=True, metavar="U", help="the user's id in the source")
    explain.add_argument("--candidate", required=True, metavar="C", help="the item's id in the source")
    explain.add_argument("--top", type=int, default=15, metavar="N", help="behaviours in the table (15)")
    explain.add_argument("--picture", metavar="FILE", help="else below data/08_reporting")
    explain.add_argument("--env", help="Kedro's environment, as smoke")
    explain.set_defaults(run=_explain)
    _add_registry(commands)
    return parser


def _add_registry(commands: Any) -> None:
    registry = commands.add_parser(
        "registry", help="the versions of a retrained row: list them, show one, promote one, roll back"
    )
    actions = registry.add_subparsers(metavar="ACTION", required=True)
    for name, what, version in (
        ("list", "every version, and which one serves", None),
        ("show", "what is known of a version, as JSON; of the champion if none is named", "?"),
        ("promote", "let a version serve, whatever the gate said of it", 1),
        ("rollback", "let the version before the champion serve again", None),
    ):
        action = actions.add_parser(name, help=what)
        action.add_argument(
            "row",
            metavar="DATASET[.MODEL]" if name == "list" else "DATASET.MODEL",
            help="a retrained row, as simulated.din",
        )
        if version:
            action.add_argument("version", metavar="VERSION", nargs="?" if version == "?" else None)
        action.add_argument("--env", help="the configuration environment, as of kedro run")
        action.set_defaults(run=_registry, action=name)


def _download(arguments: argparse.Namespace) -> None:
    from deep_interest.sources.fetch import fetch  # noqa: PLC0415  # requests is for this command alone

    if arguments.name in BY_HAND:
        page, folder = BY_HAND[arguments.name]
        place = raw_root(arguments.to) / folder
        raise InputError(
            f"{arguments.name}: its publisher gives the files out on {page} only; put them into {place}"
        )
    dataset = DOWNLOADS[arguments.name]
    _write(f"{arguments.name}: description and licence at {dataset.page}")
    for file in dataset.files:
        fetch(file, raw_root(arguments.to), say=_write)


def _check(arguments: argparse.Namespace) -> None:
    from deep_interest.commands.check import check_dataset  # noqa: PLC0415  # Kedro is for this command alone

    for line in check_dataset(arguments.dataset, env=arguments.env):
        _write(line)


def _registry(arguments: argparse.Namespace) -> None:
    from deep_interest.commands import registry  # noqa: PLC0415  # Kedro is for this command alone

    row, env = arguments.row, arguments.env
    if arguments.action == "list":
        for line in registry.list_versions(row, env=env):
            _write(line)
    elif arguments.action == "show":
        _write(registry.show_version(row, arguments.version, env=env))
    elif arguments.action == "promote":
        _write(registry.promote(row, arguments.version, env=env))
    else:
        _write(registry.rollback(row, env=env))


def _explain(arguments: argparse.Namespace) -> None:
    from deep_interest.commands.explain import explain_row  # noqa: PLC0415  # torch and Kedro are for this command alone

    explain_row(
        arguments.row, arguments.user, arguments.candidate, top=arguments.top, picture=arguments.picture, env=arguments.env,
        say=_write,
    )  # fmt: skip


def _write(line: str, stream: TextIO | None = None) -> None:
    (stream or sys.stdout).write(f"{line}\n")


if __name__ == "__main__":
    run()
