"""The command ``kedro`` in a rank of the tests: after a run that succeeds, the threads of the process group have ended."""

from kedro.framework.cli import main
from support.threads import require_no_gloo_threads

if __name__ == "__main__":
    try:
        main()
    except SystemExit as stop:
        if not stop.code:
            require_no_gloo_threads()
        raise
