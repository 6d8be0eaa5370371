"""The event store that the settings of a service name."""

import logging
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from deep_interest.errors import InputError
from deep_interest.service.settings import ServiceSettings
from deep_interest.serving.events import EventStore, SqliteEvents

logger = logging.getLogger(__name__)
_FORM = "redis://HOST:PORT/DATABASE, such as redis://127.0.0.1:6379/0"
_PASSWORD = "put it into a file for --events-password-file or into DEEP_INTEREST_EVENTS_PASSWORD"


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

    return RedisEvents(
        settings.events, experiment=settings.experiment, service=service_id(settings), password=settings.events_password
    )  # fmt: skip


def service_id(settings: ServiceSettings) -> str:
    """Return the id of a service: its host and its folder, which only one service uses at a time."""
    return f"{socket.gethostname()}:{settings.folder.resolve()}"


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
    """Return the address of a Redis server. An error does not repeat any of it, because it could have a password in the wrong place.

    Raises:
        InputError: it is not such an address, or has the password, which other users of the machine could read in the list of processes.
    """
    try:
        parts = urlsplit(url)
        password, _ = parts.password, parts.port  # raises for a port that is not a number
    except ValueError:
        raise _address_error("the host or the port is wrong") from None  # whose message repeats a part
    if password is not None:
        raise InputError(f"--events: the address has a password; leave it out, and {_PASSWORD}")
    database = parts.path.removeprefix("/") or "0"
    if parts.scheme not in ("redis", "rediss"):
        raise _address_error("it does not begin with redis:// or rediss://")
    if not parts.hostname:
        raise _address_error("it does not name a host after //")
    if not (database.isascii() and database.isdecimal()):
        raise _address_error("the database is not a number")
    if parts.query or parts.fragment:
        raise _address_error("it has ? or #")
    return url


def _address_error(problem: str) -> InputError:
    return InputError(
        f"--events: {problem}; expected an address of the form {_FORM}, without a password: {_PASSWORD}"
    )


def read_password(file: str | None, variable: str) -> str | None:
    """Return the first line of a file, or the value of an environment variable; None if neither is there.

    Raises:
        InputError: the file cannot be read, or its first line is empty.
    """
    if file is None:
        return os.environ.get(variable) or None
    try:
        password = Path(file).read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    except OSError as error:
        raise InputError(f"--events-password-file: {file} cannot be read ({error})") from error
    except UnicodeDecodeError:
        raise InputError(
            f"--events-password-file: {file} is not UTF-8; save it as UTF-8"
        ) from None  # whose message repeats a byte
    if not password:
        raise InputError(
            f"--events-password-file: the first line of {file} is empty; write the password of the Redis server into it"
        )
    return password
