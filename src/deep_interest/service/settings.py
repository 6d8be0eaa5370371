"""Settings of the service; the supervisor writes them to a file that the workers read."""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from deep_interest.serving.exploration import Exploration

VARIABLE = "DEEP_INTEREST_SERVICE"
"""Environment variable of a worker: path of the file with its settings."""

TOKEN_VARIABLE = "DEEP_INTEREST_TOKEN"
"""Environment variable of the bearer token."""

EVENTS_PASSWORD_VARIABLE = "DEEP_INTEREST_EVENTS_PASSWORD"
"""Environment variable of the password of the Redis server."""


class ServiceSettings(BaseModel):
    """Settings of the service.

    Attributes:
        experiment: ``DATASET.MODEL``.
        folder: folder of the service: snapshots, events, and the file that says which snapshots serve.
        host, port: address to listen on.
        workers: number of worker processes.
        threads: cores that each worker scores with; its share of all cores if None.
        device: device that scores: ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``cuda:1``, …
        token: bearer token that requests must have; None for none.
        max_body: largest body of a request in bytes.
        max_candidates: largest number of candidates of a request.
        max_history: largest number of behaviours in the history of a request.
        max_events: largest number of events of a request.
        queue: number of requests of a worker that may wait; further ones are answered with 503.
        access_log: whether each request is logged as a line of JSON.
        events: address of the Redis server with the events; None for SQLite in the folder.
        events_password: password of this server; None for none.
        explore: how the order of the candidates is drawn; None for the order of eCPM.
        request_log: folder for the features and scores of each ranking; None for none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    experiment: str
    folder: Path
    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    workers: int = Field(1, ge=1)
    threads: int | None = Field(None, ge=1)
    device: str = "auto"
    token: str | None = Field(None, min_length=1)
    max_body: int = Field(1 << 20, ge=1)
    max_candidates: int = Field(1000, ge=1)
    max_history: int = Field(10_000, ge=1)
    max_events: int = Field(1000, ge=1)
    queue: int = Field(32, ge=1)
    access_log: bool = True
    events: str | None = None
    events_password: str | None = Field(None, min_length=1)
    explore: Exploration | None = None
    request_log: Path | None = None

    @property
    def snapshots(self) -> Path:
        """Folder of the snapshots."""
        return self.folder / "snapshots"

    @property
    def serving_file(self) -> Path:
        """File that says which snapshots serve."""
        return self.folder / "serving.json"

    @property
    def database(self) -> Path:
        """File of the embedded event store."""
        return self.folder / "events.sqlite"


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def settings_of_worker() -> ServiceSettings:
    """Return the settings that the supervisor has written."""
    settings = ServiceSettings.model_validate_json(Path(os.environ[VARIABLE]).read_text(encoding="utf-8"))
    secrets = {
        "token": os.environ.get(TOKEN_VARIABLE),
        "events_password": os.environ.get(EVENTS_PASSWORD_VARIABLE),
    }
    return settings.model_copy(update=secrets)


SECRETS = {"token", "events_password"}
"""Settings that no file has; workers get them as environment variables."""
