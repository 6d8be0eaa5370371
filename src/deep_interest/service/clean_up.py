"""Delete the snapshots that no version uses, and the events that all logs in use have."""

import logging
import shutil
import time

from deep_interest.service.deployment import Serving
from deep_interest.service.event_store import open_events
from deep_interest.service.settings import ServiceSettings
from deep_interest.serving.snapshot import load_snapshot

logger = logging.getLogger(__name__)


class CleanUp:
    """Cleans up after each change of what serves, and every hour, which also keeps the recorded log end from expiring.

    Snapshots of the serving before stay until the next change, for workers that use them.

    Args:
        settings: settings of the service.
        serving: what serves.
        period: seconds between two successful clean-ups without a change.
    """

    def __init__(self, settings: ServiceSettings, serving: Serving, *, period: float = 3600) -> None:
        self._settings, self._period = settings, period
        self._used: tuple[Serving, ...] = (serving,)
        self._due, self._failure = 0.0, ""

    def replace(self, serving: Serving) -> None:
        """Note what serves now; the next `run` cleans up."""
        self._used, self._due = (serving, self._used[0]), 0.0

    def run(self) -> None:
        """Clean up if it is due. A failure is logged, once for each reason, and the next call tries again."""
        if time.monotonic() < self._due:
            return
        try:
            clean_up(self._settings, *self._used)
            self._due, self._failure = time.monotonic() + self._period, ""
        except Exception as error:
            if str(error) != self._failure:
                logger.warning(
                    "old snapshots and events are not deleted yet, and it is tried again: %s", error
                )
            self._failure = str(error)


def clean_up(settings: ServiceSettings, *used: Serving) -> None:
    """Delete snapshots that no version uses, and events that all logs in use have.

    Raises:
        EventStoreError: the event store cannot be used.
    """
    remove_old_snapshots(settings, *used)
    ends = [
        load_snapshot(settings.snapshots / name, verify=False).facts.log_end
        for serving in used
        for name in serving.snapshots
        if (settings.snapshots / name).is_dir()
    ]
    if ends:
        events = open_events(settings)
        try:
            events.prune(min(ends))
        finally:
            events.close()


def remove_old_snapshots(settings: ServiceSettings, *used: Serving) -> None:
    """Delete the snapshots that no version uses."""
    kept = {name for serving in used for name in serving.snapshots}
    for folder in settings.snapshots.iterdir():
        if folder.name not in kept:
            shutil.rmtree(folder, ignore_errors=True)
