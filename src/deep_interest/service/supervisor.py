"""The parent process: it starts the workers, restarts those that die, and watches for a new champion."""

import logging
import os
import shutil
import threading
from collections.abc import Callable

import uvicorn
from uvicorn.supervisors import Multiprocess

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.service.deployment import Serving
from deep_interest.service.metrics import clear_shared_metrics
from deep_interest.service.settings import TOKEN_VARIABLE, VARIABLE, ServiceSettings
from deep_interest.serving.snapshot import load_snapshot

logger = logging.getLogger(__name__)
Prepare = Callable[[], Serving]
"""Writes the snapshots of the versions that should serve, where they are missing, and names them."""


def run_service(settings: ServiceSettings, prepare: Prepare, *, interval: float = 2.0) -> None:
    """Serve until the process is asked to end by SIGTERM or SIGINT; running requests are finished.

    Args:
        settings: settings of the service.
        prepare: called at the start and then every ``interval`` seconds.
        interval: seconds between two looks at the registry.

    Raises:
        InputError: no version can serve, or the address is in use.
    """
    settings.folder.mkdir(parents=True, exist_ok=True)
    serving = prepare()
    serving.write(settings.serving_file)
    remove_old_snapshots(settings, serving)
    file = settings.folder / "settings.json"
    with atomic_path(file) as temporary:
        temporary.write_text(settings.model_dump_json(exclude={"token"}) + "\n", encoding="utf-8")
    os.environ[VARIABLE] = str(file)
    if settings.token is not None:
        os.environ[TOKEN_VARIABLE] = settings.token  # no file has it
    clear_shared_metrics(settings.folder / "metrics")
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(settings, prepare, serving, stop, interval), daemon=True)
    watcher.start()
    config = uvicorn.Config(
        "deep_interest.service.worker:create_app", factory=True, host=settings.host, port=settings.port,
        workers=settings.workers, access_log=False, log_level="warning", timeout_graceful_shutdown=30, server_header=False,
        backlog=2048, timeout_keep_alive=75, lifespan="on",
    )  # fmt: skip
    try:
        socket = config.bind_socket()
    except SystemExit as error:  # uvicorn has logged the reason
        raise InputError(
            f"{settings.host}:{settings.port} cannot be used; end the program that listens there, or choose another --port"
        ) from error
    try:
        Multiprocess(config, sockets=[socket]).run()
    finally:
        stop.set()
        socket.close()


def _watch(
    settings: ServiceSettings, prepare: Prepare, serving: Serving, stop: threading.Event, interval: float
) -> None:
    failure = ""
    while not stop.wait(interval):
        try:
            wanted = prepare()
            if wanted != serving:
                for name in wanted.snapshots:
                    load_snapshot(settings.snapshots / name)  # a damaged one is not offered to the workers
                wanted.write(settings.serving_file)
                logger.info("%s replaces %s", wanted.primary, serving.primary)
                remove_old_snapshots(settings, wanted, serving)
                serving = wanted
            failure = ""
        except (InputError, OSError) as error:
            if str(error) != failure:  # once for each reason
                logger.error("%s goes on serving: %s", serving.primary, error)
                failure = str(error)


def remove_old_snapshots(settings: ServiceSettings, *used: Serving) -> None:
    """Delete the snapshots that no version uses; those of the serving before stay until the next change, for workers that use them."""
    kept = {name for serving in used for name in serving.snapshots}
    for folder in settings.snapshots.iterdir():
        if folder.name not in kept:
            shutil.rmtree(folder, ignore_errors=True)
