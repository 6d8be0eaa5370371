"""What a run has to do: which days are new, which train, which one judges, and from which version it starts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from deep_interest.errors import InputError
from deep_interest.retraining.checks import Record
from deep_interest.retraining.parameters import RetrainingParameters, Strategy
from deep_interest.serving.registry import RegistryState
from deep_interest.serving.version import Version


class NothingNewError(InputError):
    """There is no day that a run could take."""


@dataclass(frozen=True)
class Plan:
    """One run.

    Attributes:
        new: days that were not taken before, in order.
        late: those of them that are older than one taken before.
        history: days whose behaviours make the histories, the held-out day among them.
        train: days whose impressions the challenger is fitted on.
        held_out: the newest day; it judges and trains nobody in this run.
        strategy: how the challenger is fitted.
        parent: the champion's version, or None.
        trained: all days that the challenger will have seen.
        records: of the new and the changed days.
        changed: days that were taken before and whose files have changed since.
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

    def with_changed(self, records: dict[str, Record]) -> "Plan":
        """Return the plan with the new records of changed days."""
        return replace(self, changed=tuple(records), records=self.records | records)


def new_days(found: Iterable[str], state: RegistryState) -> list[str]:
    """The days that no run has taken, in order.

    Raises:
        NothingNewError: there is none, or one day alone, with nothing to train on before it.
    """
    found = sorted(found)
    new = [day for day in found if day not in state.days]
    if not new:
        newest = f"the newest is {max(state.days)}" if state.days else "there is no day at all"
        raise NothingNewError(f"no new day: {newest}")
    if len(found) < 2:
        raise NothingNewError(
            f"{new[0]} is the only day; it is held out, so one day more is needed to train on"
        )
    return new


def plan_run(
    found: Iterable[str],
    state: RegistryState,
    champion: Version | None,
    retraining: RetrainingParameters,
    records: dict[str, Record],
) -> Plan:
    """Decide what a run does.

    Args:
        found: all days that there are.
        state: of the registry.
        champion: the version that serves.
        retraining: the parameters.
        records: of the new days.
    """
    days = sorted(found)
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
    newest = max(state.days, default="")
    return Plan(
        new=tuple(records),
        late=tuple(day for day in records if day < newest),
        history=tuple(sorted({*history, *train, held_out})),
        train=tuple(train),
        held_out=held_out,
        strategy=strategy,
        parent=champion.id if champion else None,
        trained=tuple(train if strategy == "full_window" else sorted({*seen, *fresh})),
        records=records,
    )


def with_replay(window: Sequence[str], fresh: Sequence[str], replay_days: int) -> list[str]:
    """The unseen days of a window, and the ``replay_days`` newest of the others."""
    seen = [day for day in window if day not in fresh]
    return sorted([*fresh, *(seen[-replay_days:] if replay_days else [])])
