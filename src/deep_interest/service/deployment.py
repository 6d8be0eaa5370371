"""Which versions a worker serves, and how a new one takes over: loaded in the background, warmed up, then swapped in."""

import gc
import hashlib
import json
import logging
import threading
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.serving.events import EventStore, Id
from deep_interest.serving.ranker import Ranker

logger = logging.getLogger(__name__)
_CPU = torch.device("cpu")


class Serving(BaseModel):
    """Which snapshots serve; the supervisor replaces the file atomically.

    Attributes:
        primary: snapshot of the champion.
        split: snapshot that serves a share of the users in place of the champion.
        share: this share, above 0 and at most 1.
        shadow: snapshot that scores every ranking as well; its scores are only logged.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    primary: str
    split: str | None = None
    share: float = Field(0.0, ge=0, le=1)
    shadow: str | None = None

    def write(self, path: Path) -> None:
        """Replace the file."""
        with atomic_path(path) as temporary:
            temporary.write_text(self.model_dump_json() + "\n", encoding="utf-8")

    @property
    def snapshots(self) -> set[str]:
        """Names of all snapshots in use."""
        return {name for name in (self.primary, self.split, self.shadow) if name is not None}


@dataclass(frozen=True)
class Deployment:
    """The rankers of one moment; a request uses one of them from beginning to end.

    Attributes:
        serving: what they are.
        rankers: ``{snapshot: ranker}``.
    """

    serving: Serving
    rankers: dict[str, Ranker]

    def ranker_of(self, user: Id | None) -> Ranker:
        """Return the ranker of a user: always the same for a user, as long as the split is the same."""
        serving = self.serving
        if serving.split is not None and user is not None and bucket_of(user) < serving.share:
            return self.rankers[serving.split]
        return self.rankers[serving.primary]

    def ranker_of_version(self, version: str) -> Ranker:
        """Return the ranker of a version that serves, or is a shadow."""
        return next(ranker for ranker in self.rankers.values() if ranker.version == version)

    @property
    def primary(self) -> Ranker:
        """The champion's ranker."""
        return self.rankers[self.serving.primary]

    @property
    def shadow(self) -> Ranker | None:
        """The ranker whose scores are only logged."""
        return None if self.serving.shadow is None else self.rankers[self.serving.shadow]


def bucket_of(user: Id) -> float:
    """Return a number in [0, 1) that depends only on the user's id."""
    digest = hashlib.blake2b(json.dumps(user).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def exempt_from_collection() -> None:
    """Exempt all existing objects from garbage collection: to visit those of PyTorch and of the models takes over 100 ms."""
    gc.collect()
    gc.freeze()


class DeploymentLoader:
    """Keeps a worker's deployment equal to the file that the supervisor writes.

    Args:
        path: file that says which snapshots serve.
        snapshots: folder of the snapshots.
        events: event store of the worker.
        device: device that scores.
        interval: seconds between two checks of the file.
    """

    def __init__(
        self, path: Path, snapshots: Path, events: EventStore, *, device: torch.device = _CPU,
        interval: float = 0.5,
    ) -> None:  # fmt: skip
        self._path, self._snapshots, self._events, self._interval = path, snapshots, events, interval
        self.device = device
        self._stop = threading.Event()
        self.current = self._load(self._read(), {})
        self._thread = threading.Thread(target=self._watch, name="deployment", daemon=True)

    def start(self) -> None:
        """Start to watch the file."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def refresh(self) -> bool:
        """Load what the file names, if it differs, and swap it in; return whether it did."""
        serving = self._read()
        if serving == self.current.serving:
            return False
        self.current = self._load(serving, self.current.rankers)
        gc.unfreeze()  # the versions that do not serve any longer can be collected
        exempt_from_collection()
        logger.info("version %s serves", self.current.primary.version)
        return True

    def _watch(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self.refresh()
            except InputError as error:
                logger.error("the deployment stays as it was: %s", error)
                self._stop.wait(10 * self._interval)
            except Exception:
                logger.exception("the deployment stays as it was")
                self._stop.wait(10 * self._interval)

    def _read(self) -> Serving:
        return Serving.model_validate_json(self._path.read_text(encoding="utf-8"))

    def _load(self, serving: Serving, loaded: dict[str, Ranker]) -> Deployment:
        rankers = {
            name: loaded.get(name) or Ranker.load(self._snapshots / name, self._events, device=self.device)
            for name in sorted(serving.snapshots)
        }
        return Deployment(serving, rankers)
