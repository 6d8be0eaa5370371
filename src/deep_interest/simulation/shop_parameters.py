"""Parameters of the simulated shop while rankers serve it: visits, auction, and an A/B test of rankers."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrafficParameters(_Strict):
    """Visits, and what can be shown in them.

    Attributes:
        visits: mean number of visits of a user on a day; active users come more often.
        candidates: number of candidates of a visit, which the matching stage selects from all items.
    """

    visits: float = Field(0.7, gt=0)
    candidates: int = Field(100, ge=2)


class AuctionParameters(_Strict):
    """Generalised second-price auction for the slots of a visit.

    Candidates are ranked by CTR^γ × bid (DIN, footnote 4; DIEN, footnote 4). The winner of a slot pays, if it is clicked, the smallest bid
    that would have kept the slot, and at least the reserve price.

    Attributes:
        gamma: exponent γ.
        reserve_price: smallest bid that takes part, and smallest price of a click.
        examination: probability that a user looks at each slot, from the first; a click needs a look.
        median_bid: median bid of the items for a click.
        bid_spread: standard deviation of the logarithm of the bids.
        daily_spread: standard deviation of the change of the logarithm of a bid on each day.
        exploration: share of the visits whose slots are filled with random candidates, for the reserve price.
    """

    gamma: float = Field(1.0, gt=0)
    reserve_price: float = Field(0.2, ge=0)
    examination: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field((1.0, 0.75, 0.6, 0.5), min_length=1)
    median_bid: float = Field(1.0, gt=0)
    bid_spread: float = Field(0.5, ge=0)
    daily_spread: float = Field(0.1, ge=0)
    exploration: float = Field(0.0, ge=0, le=1)

    @property
    def slots(self) -> int:
        """Number of slots."""
        return len(self.examination)


class RankerParameters(_Strict):
    """What ranks the candidates in an arm of a test: one of the attributes.

    Attributes:
        model: key of the model, which is retrained after each day.
        registry: folder of a registry, whose version serves on all days; a relative path begins at the project.
        version: id of that version; None for the champion.
        service: address of a model in a running service, such as ``http://127.0.0.1:8080/v2/models/simulated.din``.
        ranker: ``oracle`` (the true click probability, with noise), ``popularity``, or ``random``.
        noise: standard deviation of the normal noise that the oracle adds to the log-odds of each candidate in each visit.
    """

    model: str | None = None
    registry: str | None = None
    version: str | None = None
    service: Annotated[str, Field(pattern=r"^https?://[^/]+.*/v2/models/[^/]+$")] | None = None
    ranker: Literal["oracle", "popularity", "random"] | None = None
    noise: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _parts_belong_together(self) -> "RankerParameters":
        if sum(of is not None for of in (self.model, self.registry, self.service, self.ranker)) != 1:
            raise ValueError(
                "an arm has one of {model: din}, {registry: FOLDER}, {service: URL}, {ranker: oracle}, {ranker: popularity} and "
                "{ranker: random}"
            )
        if self.version is not None and self.registry is None:
            raise ValueError("version is a version of registry; set registry to the folder that has it")
        if self.noise and self.ranker != "oracle":
            raise ValueError("noise is an option of {ranker: oracle}; remove it")
        return self


class PhaseParameters(_Strict):
    """Days of a simulated test.

    Attributes:
        warm_up: days on which all users see random rankings, which train the first models.
        aa: days of the A/A test: users have their arms, but the ranker of the control serves all.
        ab: days of the A/B test.
    """

    warm_up: int = Field(4, ge=2)
    aa: int = Field(7, ge=0)
    ab: int = Field(28, ge=1)

    @property
    def total(self) -> int:
        """Number of all days."""
        return self.warm_up + self.aa + self.ab


class SimulatedTestParameters(_Strict):
    """An A/B test in the simulated shop, in place of the log of a real one.

    Attributes:
        shop: parameters of the simulation that differ from those under ``simulation``.
        phases: days of warm-up, A/A test and A/B test.
        traffic: visits and candidates.
        auction: auction for the slots.
        arms: what ranks in each arm of the split.
        training_log: whose impressions train the models: those of all arms (``pooled``), or of the users of the arm (``own``).
        retraining: parameters that differ from those under ``retraining``.
        counterfactuals: whether the test is also simulated with all users in each arm, which shows the true lift and how far the arms
            influence each other.
    """

    shop: dict[str, Any] = {}
    phases: PhaseParameters = PhaseParameters()
    traffic: TrafficParameters = TrafficParameters()
    auction: AuctionParameters = AuctionParameters()
    arms: dict[str, RankerParameters]
    training_log: Literal["pooled", "own"] = "pooled"
    retraining: dict[str, Any] = {}
    counterfactuals: bool = False
