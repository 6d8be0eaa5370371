"""Parameters of an A/B test, a block under ``abtests``."""

from datetime import date
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from deep_interest.simulation.shop_parameters import SimulatedTestParameters
from deep_interest.sources.tables.column_declarations import LogReading
from deep_interest.sources.tables.exposure_declaration import ExposureSource


def _with_names(split: Any) -> Any:
    """Accept arms that YAML reads as numbers, such as 0 and 1."""
    return {str(arm): share for arm, share in split.items()} if isinstance(split, dict) else split


def _as_name(arm: Any) -> Any:
    return str(arm) if isinstance(arm, int) else arm


class ABTestParameters(BaseModel):
    """Parameters of an A/B test.

    Attributes:
        title: heading of the read-out.
        source: declaration of the log of a real test.
        simulation: a test in the simulated shop, in place of a log.
        control: arm that the others are compared with.
        split: planned share of the users by arm, in any unit.
        start: first day of the test; earlier rows of the log are the pre-period for CUPED. None if all rows are of the test.
        expected_lift: relative lift at which the always-valid interval is tightest, and for which the days are predicted.
        planned_days: days that the test is planned to run; the always-valid interval then holds on these, and is narrower. None for any
            number of days.
        reading: how the log is read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    source: ExposureSource | None = None
    simulation: SimulatedTestParameters | None = None
    control: Annotated[str, BeforeValidator(_as_name)]
    split: Annotated[dict[str, Annotated[float, Field(gt=0)]], BeforeValidator(_with_names)]
    start: date | None = None
    expected_lift: float = Field(0.05, gt=0)
    planned_days: int | None = Field(None, ge=1)
    reading: LogReading = LogReading()

    @model_validator(mode="after")
    def _validate_arms(self) -> "ABTestParameters":
        if len(self.split) < 2:
            raise ValueError(
                f"split has the arm(s) {', '.join(self.split)} only; name the planned share of at least two arms, as "
                "{base: 0.5, din: 0.5}"
            )
        if self.control not in self.split:
            raise ValueError(
                f"control {self.control} is not an arm of split; the arms are {', '.join(self.split)}"
            )
        if self.start is not None and self.source is not None and self.source.pre_period is not None:
            raise ValueError(
                "set start (rows before it are the pre-period) or source.pre_period (a table of its own), not both"
            )
        return self

    @model_validator(mode="after")
    def _validate_log(self) -> "ABTestParameters":
        if (self.source is None) == (self.simulation is None):
            raise ValueError(
                "a test has either source (the log of a real test) or simulation (a test in the simulated shop); set one of them"
            )
        if self.simulation is None:
            return self
        if self.start is not None:
            raise ValueError(
                "start: the days of a simulated test are those of simulation.phases; remove start"
            )
        if set(self.simulation.arms) != set(self.split):
            raise ValueError(
                f"simulation.arms describes {', '.join(self.simulation.arms)}, but the arms of split are {', '.join(self.split)}; describe "
                "each arm once"
            )
        return self
