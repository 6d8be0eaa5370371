"""Bodies of requests and responses; the OpenAPI document is made from these classes."""

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from deep_interest.models.config import Precision
from deep_interest.serving.events import Event

LARGEST_INTEGER, LONGEST_STRING, LARGEST_BID = 2**63 - 1, 1024, 1e15
_Integer = Annotated[StrictInt, Field(ge=-LARGEST_INTEGER - 1, le=LARGEST_INTEGER)]
_String = Annotated[StrictStr, Field(max_length=LONGEST_STRING)]
_Time = Annotated[StrictInt, Field(ge=-(2**61), le=2**61)]
Id = _Integer | _String
Value = StrictBool | _Integer | Annotated[StrictFloat, Field(allow_inf_nan=False)] | _String | None


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Candidate(_Body):
    """An item that may be shown."""

    item: Id = Field(description="Id of the item, as in the source.")
    bid: float = Field(
        1.0, gt=0, le=LARGEST_BID, allow_inf_nan=False, description="Bid; eCPM is CTR^γ × bid."
    )


class RankOptions(_Body):
    """A ranking request without its candidates."""

    user: Id | None = Field(None, description="Id of the user; leave it out for a user without an id.")
    context: dict[_String, Value | list[Value]] = Field(
        {}, description="Value of each context feature: one for all candidates, or one per candidate."
    )
    history: list[Id] | None = Field(
        None,
        description="Items of the user's behaviours, oldest first, in place of those that the service knows.",
    )
    time: _Time | None = Field(
        None,
        description="Time of the request in the unit of the log, for models that see the time since a behaviour.",
    )
    gamma: float = Field(
        1.0, ge=0, le=100, allow_inf_nan=False, description="Exponent γ of eCPM = CTR^γ × bid."
    )
    top_k: int | None = Field(None, ge=1, description="Number of candidates to return; all by default.")
    request_id: str | None = Field(
        None,
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9_.:-]+$",
        description="Id for logs; made by the service by default.",
    )


class RankRequest(RankOptions):
    """Candidates to rank for a user."""

    candidates: list[Candidate] = Field(min_length=1, description="Candidates, with their bids.")


class RankedItem(_Body):
    """A candidate in its order."""

    item: Id
    ctr: float = Field(description="Predicted click probability.")
    bid: float
    ecpm: float = Field(description="CTR^γ × bid, by which the candidates are ordered.")
    propensity: float | None = Field(
        None, description="With exploration: probability with which this candidate is in this slot."
    )


class RankResponse(_Body):
    """The candidates by descending eCPM, with exploration in a random order."""

    request_id: str
    model: str
    version: str = Field(description="Version of the model that has scored all candidates.")
    precision: Precision = Field(description="Precision in which the version scores.")
    unknown_user: bool = Field(description="Whether nothing is known about the user.")
    unknown_items: int = Field(description="Number of candidates that are not in the catalogue.")
    ranking: list[RankedItem]


class NewEvent(_Body):
    """A behaviour that has just happened."""

    user: Id
    item: Id
    time: _Time = Field(description="Time in the unit of the log.")
    columns: dict[_String, Value] = Field(
        {}, description="What happened: the behaviour's own columns, such as an action or a rating."
    )


class EventsRequest(_Body):
    """Behaviours that have just happened."""

    events: list[NewEvent] = Field(min_length=1)

    def for_store(self) -> list[Event]:
        """Return the events in the form of the store."""
        return [Event(event.user, event.item, event.time, event.columns) for event in self.events]


class EventsResponse(_Body):
    """Answer after the events are stored durably."""

    accepted: int


class ErrorBody(_Body):
    """What is wrong with a request."""

    message: str
    field: str | None = Field(None, description="Field of the request, such as candidates.3.bid.")


class ErrorResponse(_Body):
    """Answer to a request that cannot be served."""

    error: ErrorBody


class InferInput(_Body):
    """A tensor of the Open Inference Protocol."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: _String
    shape: list[Annotated[StrictInt, Field(ge=0, le=2**31)]] = Field(max_length=2)
    datatype: str
    parameters: dict[str, Any] = {}
    data: list[Any] | None = None


class InferOutput(_Body):
    """A requested output of the Open Inference Protocol."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: _String
    parameters: dict[str, Any] = {}


class InferRequest(_Body):
    """A request of the Open Inference Protocol."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str | None = Field(None, max_length=1024)
    parameters: dict[str, Any] = {}
    inputs: list[InferInput] = Field(min_length=1, max_length=64)
    outputs: list[InferOutput] = Field([], max_length=8)

    @model_validator(mode="after")
    def _names_are_distinct(self) -> "InferRequest":
        names = [given.name for given in self.inputs]
        if len(set(names)) < len(names):
            raise ValueError("inputs: each name may occur only once")
        return self
