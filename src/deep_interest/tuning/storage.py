"""Where the trials of a search are kept: a SQLite file, or a PostgreSQL server that several machines share."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
import sqlalchemy
from filelock import FileLock
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.pool import NullPool

from deep_interest.errors import InputError

PASSWORD_VARIABLE = "DEEP_INTEREST_TUNING_PASSWORD"
HEARTBEATS_UNTIL_LOST = 4  # that a trial misses before it counts as lost


def check_address(address: str) -> str:
    """Return the address of a server if it is valid.

    Raises:
        ValueError: it is not a URL of PostgreSQL, or it contains a password.
    """
    try:
        url = make_url(address)
    except ArgumentError:
        raise ValueError(
            "expected the URL of a PostgreSQL server, such as postgresql://tuner@db.example.com/optuna"
        ) from None
    if url.get_backend_name() != "postgresql" or not url.database:
        raise ValueError(
            f"expected postgresql://USER@HOST/DATABASE, found {url.render_as_string()}; other databases are not supported"
        )
    if url.password or "password" in url.query:
        raise ValueError(
            f"the URL contains a password; remove it, and set the environment variable {PASSWORD_VARIABLE}"
        )
    return address


def file_storage(file: Path) -> optuna.storages.RDBStorage:
    """Open the SQLite file of a search, which is created if it is missing."""
    return optuna.storages.RDBStorage(f"sqlite:///{file}", engine_kwargs={"connect_args": {"timeout": 60}})


def server_storage(
    address: str, *, lost_after: int, when_lost: Callable[[optuna.Study, FrozenTrial], None]
) -> optuna.storages.RDBStorage:
    """Open the storage on a server; running trials report to it that they are alive.

    Args:
        address: see `check_address`.
        lost_after: seconds without a report after which a trial counts as lost.
        when_lost: called with each trial that has been lost.

    Raises:
        InputError: the driver is not installed, or the server cannot be reached.
    """
    with warnings.catch_warnings(), _connecting(address):
        warnings.simplefilter("ignore", ExperimentalWarning)
        return optuna.storages.RDBStorage(
            _with_driver(address).render_as_string(hide_password=False), engine_kwargs={"pool_pre_ping": True},
            heartbeat_interval=max(1, lost_after // HEARTBEATS_UNTIL_LOST), grace_period=lost_after,
            heartbeat_stale_trial_callback=when_lost,
        )  # fmt: skip


def fail_lost_trials(study: optuna.Study) -> None:
    """Mark the running trials of a shared study that no longer report as failed, and call ``when_lost`` with each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)


@contextmanager
def exclusive(address: str | None, study: str, folder: Path) -> Iterator[None]:
    """Let one worker at a time count and start the trials of a study, on all machines that share its storage.

    Args:
        address: address of the server; None for a study in a file.
        study: name of the study.
        folder: folder of the file.
    """
    if address is None:
        with FileLock(folder / "trials.lock"):
            yield
        return
    engine = sqlalchemy.create_engine(_with_driver(address), poolclass=NullPool)
    with _connecting(address):
        connection = engine.connect()
    with connection:  # PostgreSQL releases the lock when the connection ends, also that of a killed process
        connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(hashtext(:study))"), {"study": study})
        yield


def _with_driver(address: str) -> URL:
    url = make_url(address).set(drivername="postgresql+psycopg")
    password = os.environ.get(PASSWORD_VARIABLE)
    return url.set(password=password) if password else url


@contextmanager
def _connecting(address: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f'tuning.storage: {error.name} is missing; install it with pip install "deep-interest[postgresql]"'
        ) from None
    except OperationalError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise InputError(
            f"tuning.storage: cannot connect to {address} ({reason}); check the URL, the server, and the password in "
            f"{PASSWORD_VARIABLE}"
        ) from None
