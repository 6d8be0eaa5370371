"""The event store that the settings of a service name."""

import logging
import os
from pathlib import Path
from urllib.parse import urlsplit

from deep_interest.errors import InputError
from deep_interest.service.settings import ServiceSettings
from deep_interest.serving.events import EventStore, SqliteEvents

logger = logging.getLogger(__name__)
_FORM = "redis://HOST:PORT/DATABASE, such as redis://127.0.0.1:6379/0"


def open_events(settings: ServiceSettings) -> EventStore:
    """Open the event store: Redis where the settings name a server, SQLite in the folder of the service otherwise.

    Raises:
        EventStoreError: the file or the server cannot be used.
        InputError: the package ``redis`` is missing.
    """
    if settings.events is None:
        return SqliteEvents(settings.database)
    try:
        from deep_interest.serving.redis_events import RedisEvents  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise InputError(
            f'--events: {error.name} is missing; install it with pip install "deep-interest[redis]"'
        ) from error

    return RedisEvents(settings.events, experiment=settings.experiment, password=settings.events_password)


def check_events(settings: ServiceSettings) -> None:
    """Open the event store once, and warn if a server could lose acknowledged events.

    Raises:
        EventStoreError, InputError: as `open_events`.
    """
    events = open_events(settings)
    if settings.events is not None:
        from deep_interest.serving.redis_events import RedisEvents  # noqa: PLC0415  # an extra

        assert isinstance(events, RedisEvents)
        for warning in events.durability_warnings():
            logger.warning("%s", warning)
    events.close()


def check_address(url: str) -> str:
    """Return the address of a Redis server.

    Raises:
        InputError: it is not such an address, or has the password, which other users of the machine could read in the list of processes.
    """
    try:
        parts = urlsplit(url)
        password, _ = parts.password, parts.port  # raises for a port that is not a number
    except ValueError as error:
        raise InputError(f"--events: the address is not of the form {_FORM} ({error})") from error
    if password is not None:
        raise InputError(
            "--events: the address has a password; leave it out, and put it into a file for --events-password-file or into "
            "DEEP_INTEREST_EVENTS_PASSWORD"
        )
    database = parts.path.removeprefix("/")
    if parts.scheme not in ("redis", "rediss") or not parts.hostname or not (database or "0").isdigit():
        raise InputError(f"--events: found {url}, expected {_FORM}")
    if parts.query or parts.fragment:
        raise InputError(f"--events: found {url}, expected {_FORM}, without ? and #")
    return url


def read_password(file: str | None, variable: str) -> str | None:
    """Return the first line of a file, or the value of an environment variable; None if neither is there.

    Raises:
        InputError: the file cannot be read, or is empty.
    """
    if file is None:
        return os.environ.get(variable) or None
    try:
        password = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--events-password-file: {file} cannot be read ({error})") from error
    if not password:
        raise InputError(
            f"--events-password-file: {file} is empty; write the password of the Redis server into it"
        )
    return password
