"""A worker process: uvicorn calls `create_app` in each."""

import logging
import sys

from starlette.applications import Starlette
from uvicorn.config import STARTUP_FAILURE

from deep_interest.errors import InputError
from deep_interest.process import prepare_process
from deep_interest.service.event_store import open_events
from deep_interest.service.settings import ServiceSettings, settings_of_worker

logger = logging.getLogger(__name__)


def create_app() -> Starlette:
    """Return the application of this process, with the settings that the supervisor has written."""
    prepare_process()
    settings = settings_of_worker()
    set_up_logging()
    try:
        return application(settings)
    except InputError as error:
        logger.error("%s", error)
        sys.exit(
            STARTUP_FAILURE
        )  # by which uvicorn's supervisor ends, instead of starting the worker again and again


def application(settings: ServiceSettings) -> Starlette:
    """Load the versions that serve and return the application.

    Raises:
        InputError: the device does not exist, a snapshot is missing or damaged, or the event store cannot be used.
    """
    import torch  # noqa: PLC0415  # after the process is prepared

    from deep_interest.service.app import Service, make_app  # noqa: PLC0415
    from deep_interest.service.deployment import DeploymentLoader, exempt_from_collection  # noqa: PLC0415
    from deep_interest.service.metrics import Metrics  # noqa: PLC0415
    from deep_interest.service.request_log import RequestLog  # noqa: PLC0415
    from deep_interest.training.device import resolve_device  # noqa: PLC0415

    torch.set_num_threads(1)  # the scoring threads and the kernels use the cores
    device = resolve_device(settings.device, "--device")
    events = open_events(settings)
    loader = DeploymentLoader(settings.serving_file, settings.snapshots, events, device=device)
    exempt_from_collection()
    log = None if settings.request_log is None else RequestLog(settings.request_log)
    return make_app(Service(settings, loader, events, Metrics(settings.experiment), log))


def set_up_logging() -> None:
    """Write the access log to standard output unchanged, everything else to standard error."""
    access = logging.getLogger("deep_interest.access")
    access.propagate = False
    access.setLevel(logging.INFO)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    access.handlers = [handler]
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
