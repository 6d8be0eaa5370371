"""Plan of a retraining run: new days, training days, held-out day, and the version to start from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from deep_interest.errors import InputError
from deep_interest.retraining.checks import Record
from deep_interest.retraining.parameters import RetrainingParameters, Strategy
from deep_interest.serving.registry import RegistryState
from deep_interest.serving.version import Version


class NothingNewError(InputError):
    """Raised if there is no new day to train on."""


@dataclass(frozen=True)
class Plan:
    """Plan of one run.

    Attributes:
        new: days that no earlier run has used, in order.
        late: new days that are older than a day used before.
        history: days whose behaviours are part of histories, including the held-out day.
        train: days whose impressions the challenger is trained on.
        held_out: the newest day, on which challenger and champion are compared; not trained on in this run.
        strategy: how the challenger is trained.
        parent: version of the champion, or None.
        trained: all days that the challenger will have seen.
        records: records of new and changed days.
        changed: days used before whose files have changed since.
        newest: the newest day; later than the held-out day if labels of newer days are not complete.
    """

    new: tuple[str, ...]
    late: tuple[str, ...]
    history: tuple[str, ...]
    train: tuple[str, ...]
    held_out: str
    strategy: Strategy
    parent: str | None
    trained: tuple[str, ...]
    records: dict[str, Record]
    changed: tuple[str, ...] = ()
    newest: str = ""

    def with_changed(self, records: dict[str, Record]) -> "Plan":
        """Return the plan with the new records of changed days."""
        return replace(self, changed=tuple(records), records=self.records | records)


def new_days(available: Iterable[str], state: RegistryState) -> list[str]:
    """Return the days that no earlier run has used, in order.

    Raises:
        NothingNewError: there is no new day, or only one day, which leaves no day to train on.
    """
    available = sorted(available)
    new = [day for day in available if day not in state.days]
    if not new:
        newest = f"the newest is {max(state.days)}" if state.days else "there is no day at all"
        raise NothingNewError(f"no new day: {newest}")
    if len(available) < 2:
        raise NothingNewError(
            f"{new[0]} is the only day; it is held out, so at least one more day is needed for training"
        )
    return new


def plan_run(
    available: Iterable[str],
    state: RegistryState,
    champion: Version | None,
    retraining: RetrainingParameters,
    records: dict[str, Record],
    *,
    incomplete_days: int = 0,
) -> Plan:
    """Plan a run.

    Args:
        available: all available days.
        state: state of the registry.
        champion: the champion, or None.
        retraining: parameters of retraining.
        records: records of the new days.
        incomplete_days: number of newest days whose labels are not complete; they are neither trained on nor held out.

    Raises:
        NothingNewError: no day is left to train on.
    """
    *_, newest = days = sorted(available)
    days = days[: len(days) - incomplete_days]
    if len(days) < 2:
        raise NothingNewError(
            f"the labels of the last {incomplete_days} days are not complete (retraining.delayed_clicks.complete_hours), and of the days before "
            f"them there are {len(days)}; one is held out, and at least one more is needed for training"
        )
    held_out = days[-1]
    window = days[:-1][-retraining.window_days :]
    seen = [] if champion is None else champion.manifest["days"]["trained"]
    strategy = "full_window" if champion is None else retraining.strategy
    train = fresh = window if strategy == "full_window" else [day for day in window if day not in seen]
    if not train:
        raise NothingNewError(
            f"the champion {champion.id if champion else ''} has seen every day of the last {retraining.window_days} but "
            f"{held_out}, which is held out"
        )
    if strategy != "full_window":
        train = with_replay(window, fresh, retraining.replay_days)
    history = days if retraining.history_days is None else days[-1 - retraining.history_days :]
    used_before = max(state.days, default="")
    return Plan(
        new=tuple(records),
        late=tuple(day for day in records if day < used_before),
        history=tuple(sorted({*history, *train, held_out})),
        train=tuple(train),
        held_out=held_out,
        strategy=strategy,
        parent=champion.id if champion else None,
        trained=tuple(train if strategy == "full_window" else sorted({*seen, *fresh})),
        records=records,
        newest=newest,
    )


def with_replay(window: Sequence[str], fresh: Sequence[str], replay_days: int) -> list[str]:
    """Return the unseen days of a window together with the ``replay_days`` newest of the other days."""
    seen = [day for day in window if day not in fresh]
    return sorted([*fresh, *(seen[-replay_days:] if replay_days else [])])
