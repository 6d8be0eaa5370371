"""``python -m deep_interest`` runs the project like ``kedro run``."""

import sys
from pathlib import Path

from kedro.framework.cli.utils import find_run_command
from kedro.framework.project import configure_project

from deep_interest.process import prepare_process


def main(*args: str, **kwargs: object) -> object:
    """Run the packaged project; arguments as for ``kedro run``."""
    prepare_process()
    package = Path(__file__).parent.name
    configure_project(package)
    run = find_run_command(package)
    return run(*(args or (sys.argv[1:],)), **kwargs)


if __name__ == "__main__":
    main()
