"""Parameters of a protocol: how samples are made from a log."""

from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from deep_interest.logs.history_ranges import Calendar
from deep_interest.logs.negatives import Sampler


class ProtocolParameters(BaseModel):
    """How samples are made from a log.

    Attributes:
        name: ``next_item`` (DIN on Amazon), ``last_item`` (DIEN on Amazon), ``rated`` (DIN on MovieLens), ``by_day``, or ``given``
            (the source gives the split of each impression).
        mode: ``validated`` uses the second last behaviour of each user for validation; ``paper`` trains on it
            (``next_item`` only).
        negatives: sampling of negatives: ``uniform`` or by ``popularity``.
        negative_pool: training negatives come from items with a training behaviour (``trained``) or from the whole
            ``catalogue``; validation and test negatives come from the whole catalogue. With sampling by popularity all
            negatives come from items with a training behaviour.
        ties: whether behaviours at the time of the target that come ``before`` it in the user's sequence are part of its
            history, or none of them (``exclude``). ``by_day`` always excludes them.
        targets: ``{column: values}`` of the behaviours that can be targets, such as page views in a log that also has purchases; all
            if empty (``next_item``, ``last_item``).
        min_behaviors: minimum number of behaviours of a user; other users are dropped (and counted).
        positive_rating: minimum rating of a positive (``rated``; DIN §6.2: "4 and 5").
        test_users: share of test users (``rated``, ``last_item``).
        validation_users: share of validation users among the other users (``rated``, ``last_item``).
        validation_days, test_days: number of the last days of impressions (``by_day``); without validation days all epochs
            are run.
        train_days: number of training days before them; all if None (``by_day``).
        last_day: last day to use; later impressions are dropped (``by_day``).
        sampling: how random choices (ties, splits by user, negatives) are made: ``sequential`` by a random generator that goes through the
            rows in order, or ``hashed`` by a hash of seed, user and position, so that they depend neither on the order of the rows nor
            on the engine that makes the samples (`logs.hashing`).
        list_negatives: for each click of a request, the number of its other items that are sampled as negatives for training, as
            in news recommendation; all are used if None (``by_day``, ``given``).
        history_days: number of days before that of the sample whose behaviours are part of its history, next to those of the day itself;
            all if None (DIEN's industrial data: 14).
        auxiliary_negatives: negatives of the auxiliary loss: ``sampled`` from all items, or ``shown``: for each behaviour one of the
            user's 20 newest impressions before it that were not clicked, and a sampled item where there is none (``by_day``).
        day_seconds, day_offset: length of a day in the unit of ``time``, and the offset added to ``time`` before days are
            counted (local midnight); for sources without days.
        seed: seed of the negatives and of the split by user.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["next_item", "last_item", "rated", "by_day", "given"]
    mode: Literal["validated", "paper"] = "validated"
    negatives: Sampler = "uniform"
    negative_pool: Literal["trained", "catalogue"] = "trained"
    ties: Literal["before", "exclude"] = "before"
    targets: dict[str, tuple[bool | int | float | str, ...]] = {}
    sampling: Literal["sequential", "hashed"] = "sequential"
    min_behaviors: int = Field(3, ge=2)
    positive_rating: float = 4.0
    test_users: float = Field(0.1, gt=0, lt=1)
    validation_users: float = Field(0.1, gt=0, lt=1)
    validation_days: int = Field(1, ge=0)
    test_days: int = Field(1, ge=1)
    train_days: int | None = Field(None, ge=1)
    last_day: date | None = None
    list_negatives: int | None = Field(None, ge=1)
    history_days: int | None = Field(None, ge=1)
    auxiliary_negatives: Literal["sampled", "shown"] = "sampled"
    day_seconds: int = Field(86_400, gt=0)
    day_offset: int = 0
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _paper_mode_is_next_items(self) -> "ProtocolParameters":
        if self.mode == "paper" and self.name != "next_item":
            raise ValueError(f"mode: paper is only available for next_item, found {self.name}; remove mode")
        return self

    @model_validator(mode="after")
    def _options_fit_the_protocol(self) -> "ProtocolParameters":
        if self.targets and self.name not in ("next_item", "last_item"):
            raise ValueError(
                f"targets: select behaviours as targets of next_item or last_item, found {self.name}; remove targets"
            )
        if self.history_days is not None and self.name == "given":
            raise ValueError(
                "history_days: the protocol given has the histories of the source; remove history_days"
            )
        if self.auxiliary_negatives == "shown" and self.name != "by_day":
            raise ValueError(
                f"auxiliary_negatives: shown needs impressions that are split by_day, found {self.name}; remove auxiliary_negatives"
            )
        return self

    @property
    def hashed(self) -> bool:
        """Whether random choices are made by hash."""
        return self.sampling == "hashed"

    @property
    def calendar(self) -> Calendar:
        """How days follow from times where the source has none."""
        return Calendar(self.day_seconds, self.day_offset)
