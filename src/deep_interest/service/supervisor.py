"""The parent process: it starts the workers, restarts those that die, and watches for a new champion."""

import logging
import os
import shutil
import threading
from collections.abc import Callable

import uvicorn
from filelock import FileLock, Timeout
from uvicorn.supervisors import Multiprocess

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.service.clean_up import CleanUp
from deep_interest.service.deployment import Serving
from deep_interest.service.event_store import check_events
from deep_interest.service.metrics import clear_shared_metrics
from deep_interest.service.settings import (
    EVENTS_PASSWORD_VARIABLE,
    SECRETS,
    TOKEN_VARIABLE,
    VARIABLE,
    ServiceSettings,
)
from deep_interest.serving.snapshot import load_snapshot

logger = logging.getLogger(__name__)
Prepare = Callable[[], Serving]
"""Writes the snapshots of the versions that should serve, where they are missing, and names them."""


def run_service(
    settings: ServiceSettings,
    prepare: Prepare,
    *,
    interval: float = 2.0,
    started: Callable[[Serving], None] | None = None,
) -> None:
    """Serve until the process is asked to end by SIGTERM or SIGINT; running requests are finished.

    Args:
        settings: settings of the service.
        prepare: called at the start and then every ``interval`` seconds.
        interval: seconds between two checks of the registry.
        started: called with what serves, before the workers start.

    Raises:
        InputError: no version can serve, another service uses the folder, the address is in use, or the event store cannot be used.
    """
    settings.folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(settings.folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"{settings.folder}: another service uses this folder; end it, or choose another --folder"
        ) from error
    try:
        _run_locked(settings, prepare, interval, started)
    finally:
        lock.release()


def _run_locked(
    settings: ServiceSettings, prepare: Prepare, interval: float, started: Callable[[Serving], None] | None
) -> None:
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
    stop = threading.Event()
    try:
        check_events(settings)
        serving = _verified(settings, prepare)
        serving.write(settings.serving_file)
        file = settings.folder / "settings.json"
        with atomic_path(file) as temporary:
            temporary.write_text(settings.model_dump_json(exclude=SECRETS) + "\n", encoding="utf-8")
        os.environ[VARIABLE] = str(file)
        if settings.token is not None:
            os.environ[TOKEN_VARIABLE] = settings.token
        if settings.events_password is not None:
            os.environ[EVENTS_PASSWORD_VARIABLE] = settings.events_password
        clear_shared_metrics(settings.folder / "metrics")
        if started is not None:
            started(serving)
        watcher = threading.Thread(
            target=_watch, args=(settings, prepare, serving, stop, interval), daemon=True
        )
        watcher.start()
        Multiprocess(config, sockets=[socket]).run()
    finally:
        stop.set()
        socket.close()


def _verified(settings: ServiceSettings, prepare: Prepare) -> Serving:
    """Return what should serve; a damaged snapshot is written again."""
    serving = prepare()
    damaged = []
    for name in serving.snapshots:
        try:
            load_snapshot(settings.snapshots / name)
        except InputError as error:
            logger.error("%s; it is written again", error)
            damaged.append(name)
    if not damaged:
        return serving
    for name in damaged:
        shutil.rmtree(settings.snapshots / name, ignore_errors=True)
    serving = prepare()
    for name in serving.snapshots:
        load_snapshot(settings.snapshots / name)
    return serving


def _watch(
    settings: ServiceSettings, prepare: Prepare, serving: Serving, stop: threading.Event, interval: float
) -> None:
    """Clean up, and put what should serve into effect; what has failed once is not tried again before it changes."""
    failure, refused, clean_up = "", None, CleanUp(settings, serving)
    clean_up.run()
    while not stop.wait(interval):
        wanted = None
        try:
            wanted = prepare()
            if wanted not in (serving, refused):
                for name in wanted.snapshots:
                    load_snapshot(settings.snapshots / name)  # a damaged one is not offered to the workers
                wanted.write(settings.serving_file)
                logger.info("%s replaces %s", wanted.primary, serving.primary)
                serving, refused, failure = wanted, None, ""
                clean_up.replace(serving)
        except Exception as error:
            if str(error) != failure:  # once for each reason
                logger.error(
                    "%s goes on serving: %s",
                    serving.primary,
                    error,
                    exc_info=None if isinstance(error, InputError) else error,
                )
            failure, refused = str(error), wanted
        clean_up.run()
