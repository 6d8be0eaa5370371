"""Parameters of an off-policy evaluation, a block under ``ope``."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from deep_interest.offpolicy.decisions import Slate
from deep_interest.sources.tables.column_declarations import LogReading
from deep_interest.sources.tables.decision_declaration import DecisionSource


class TargetPolicy(BaseModel):
    """How the scores of candidates become probabilities of the version to evaluate.

    Attributes:
        policy: ``greedy`` orders by score; ``epsilon_greedy`` does so and orders a share ``epsilon`` of the requests at random; ``softmax``
            draws the item of the first slot with a probability proportional to ``exp(score / temperature)``, and those of further slots in the
            same way from the items that are left (Plackett-Luce).
        epsilon: see ``policy``.
        temperature: see ``policy``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: Literal["greedy", "epsilon_greedy", "softmax"] = "greedy"
    epsilon: float | None = Field(None, ge=0, le=1)
    temperature: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _validate_options(self) -> "TargetPolicy":
        for policy, option in (("epsilon_greedy", "epsilon"), ("softmax", "temperature")):
            is_set = getattr(self, option) is not None
            if (self.policy == policy) != is_set:
                raise ValueError(f"{option} is the option of policy: {policy}; set both, or remove {option}")
        return self


class OffPolicyParameters(BaseModel):
    """Parameters of an off-policy evaluation.

    Attributes:
        title: heading of the page.
        logged: name of the version that wrote the log.
        evaluated: name of the version to evaluate.
        source: declaration of the tables.
        target: how scores of candidates become probabilities.
        slate: form of the weights of several slots, see `offpolicy.decisions.slate_weights`.
        reading: how the tables are read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    logged: str = "A"
    evaluated: str = "B"
    source: DecisionSource
    target: TargetPolicy = TargetPolicy()
    slate: Slate = "item_position"
    reading: LogReading = LogReading()

    @model_validator(mode="after")
    def _validate_target(self) -> "OffPolicyParameters":
        candidates = self.source.candidates
        if "target" in self.model_fields_set and not (candidates and candidates.score):
            raise ValueError(
                "target turns scores into probabilities; set source.candidates.score, or remove target"
            )
        return self
