"""Pydantic models of the ``source`` block of an off-policy evaluation: the log of one version, and what another version would show."""

from pydantic import model_validator

from deep_interest.sources.tables.column_declarations import Strict, Strings
from deep_interest.sources.tables.declaration import TableFiles
from deep_interest.sources.tables.exposure_declaration import ClickColumn


class RequestFiles(TableFiles):
    """Files with a row for each item and slot of a request.

    Attributes:
        request: columns that together identify the request; in a log each row is a request of its own if omitted.
        item: column of the item id; several columns are joined into one id.
        slot: column of the slot, a whole number of which the smallest is the first slot; there is one slot if omitted.
    """

    request: Strings | None = None
    item: Strings = ("item",)
    slot: str | None = None

    @property
    def role_columns(self) -> list[tuple[str, str]]:
        """Keys and names of all columns."""
        columns = [("request", column) for column in self.request or ()]
        columns += [("item", column) for column in self.item]
        return columns + ([("slot", self.slot)] if self.slot else [])


class DecisionFiles(RequestFiles):
    """Files of a log of impressions with the probabilities with which they were shown.

    Attributes:
        user: column of the user id; several columns are joined into one id. Intervals are over users; over requests if omitted.
        reward: clicks or revenue of the row.
        propensity: column with the probability with which the version that wrote the log showed the item in the slot.
        target: column with the same probability under the version to evaluate.
    """

    user: Strings | None = None
    reward: ClickColumn = ClickColumn(column="click")
    propensity: str | None = "propensity"
    target: str | None = None

    @property
    def role_columns(self) -> list[tuple[str, str]]:
        """Keys and names of all columns."""
        columns = [("user", column) for column in self.user or ()] + super().role_columns
        columns.append(("reward", self.reward.column))
        columns += [("propensity", self.propensity)] if self.propensity else []
        return columns + ([("target", self.target)] if self.target else [])


class CandidateFiles(RequestFiles):
    """Files with what the version to evaluate could show in each request of the log.

    Attributes:
        probability: column with the probability of the item in the slot; those of a slot of a request sum to 1.
        score: column with the score of the item, from which `offpolicy.policies` makes probabilities; replaces ``probability``.
    """

    request: Strings | None = ("request",)
    probability: str | None = None
    score: str | None = None

    @model_validator(mode="after")
    def _validate_probability(self) -> "CandidateFiles":
        if (self.probability is None) == (self.score is None):
            raise ValueError(
                "set one of probability (of an item in a slot) and score (of an item), and how scores become probabilities under target"
            )
        if self.score and self.slot:
            raise ValueError(
                "remove slot: candidates with a score are ranked, the best one for the first slot"
            )
        if not self.request:
            raise ValueError(
                "set request, the columns that say to which request of the log a candidate belongs"
            )
        return self

    @property
    def role_columns(self) -> list[tuple[str, str]]:
        """Keys and names of all columns."""
        value = ("probability", self.probability) if self.probability else ("score", self.score)
        return [*super().role_columns, (value[0], value[1] or "")]


class DecisionSource(Strict):
    """Declaration of an off-policy evaluation's tables.

    What the version to evaluate would show comes from one of ``log.target``, ``candidates`` and ``target_log``.

    Attributes:
        folder: folder of the files, relative to the root of the raw files; defaults to the key of the evaluation.
        log: the log of the version that served.
        candidates: what the version to evaluate could show in each request of the log.
        target_log: a log of the version to evaluate itself: the share of each item in each slot is its probability, whatever the request;
            its mean reward is shown next to the estimates.
    """

    folder: str | None = None
    log: DecisionFiles
    candidates: CandidateFiles | None = None
    target_log: DecisionFiles | None = None

    @model_validator(mode="after")
    def _validate_target(self) -> "DecisionSource":
        given = [self.log.target, self.candidates, self.target_log]
        if sum(value is not None for value in given) != 1:
            raise ValueError(
                "set one of log.target (a column with the probability under the version to evaluate), candidates (a table of what it could "
                "show) and target_log (a log of its own)"
            )
        if not self.log.propensity:
            raise ValueError("log.propensity is missing; a log without probabilities cannot be weighted")
        if self.candidates and not self.log.request:
            raise ValueError("candidates need log.request, the columns that identify the request of a row")
        if (
            self.candidates
            and self.candidates.probability
            and bool(self.log.slot) != bool(self.candidates.slot)
        ):
            raise ValueError("set slot in both log and candidates, or in none of them")
        return self
