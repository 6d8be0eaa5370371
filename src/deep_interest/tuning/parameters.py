"""The block ``tuning``: which options of which row are searched, over what ranges, for how long."""

import math
from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo

from deep_interest.errors import InputError
from deep_interest.models.registry import find_model
from deep_interest.training.parameters import TrainingOptions

SET_BY_THE_SEARCH = {
    "selection",
    "watch_test",
}  # every trial is judged by validation GAUC, none sees the test set


class SearchRange(BaseModel):
    """Where one option is searched: between two bounds, or among some choices.

    Attributes:
        low, high: the bounds, both included.
        log: search on a logarithmic scale.
        integer: whole numbers only.
        choices: plain values, in place of bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float | None = None
    high: float | None = None
    log: bool = False
    integer: bool = False
    choices: tuple[bool | int | float | str, ...] | None = None

    @model_validator(mode="after")
    def _is_a_range(self) -> "SearchRange":
        if self.choices is not None:
            if self.low is not None or self.high is not None or len(self.choices) < 2:
                raise ValueError("expected low and high, or two choices or more")
            return self
        if self.low is None or self.high is None or not self.low < self.high:
            raise ValueError(f"expected low below high, found low {self.low} and high {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic scale needs low above 0, found {self.low}; leave log out")
        if self.integer and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"expected whole numbers, found low {self.low} and high {self.high}")
        return self

    def examples(self) -> list[bool | int | float | str]:
        """All choices, or the bounds with, where not whole numbers alone are drawn, one in between that is none."""
        if self.choices is not None:
            return list(self.choices)
        if self.integer:
            return [int(self.low), int(self.high)]
        return [self.low, self.high, self.low + (self.high - self.low) / math.pi]


class SearchRanges(BaseModel):
    """Ranges by option; ``training.mba`` is the option ``mba`` of the block ``training``.

    Attributes:
        training: of training options.
        model: of model options.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    training: dict[str, SearchRange] = {}
    model: dict[str, SearchRange] = {}

    @model_validator(mode="after")
    def _training_options_exist(self) -> "SearchRanges":
        if unknown := set(self.training) - set(TrainingOptions.model_fields):
            raise ValueError(
                f"training.{', training.'.join(sorted(unknown))} is no training option; the options are "
                f"{', '.join(TrainingOptions.model_fields)}"
            )
        if fixed := SET_BY_THE_SEARCH & set(self.training):
            raise ValueError(
                f"training.{', training.'.join(sorted(fixed))} is set by the search itself; leave it out"
            )
        return self

    def by_name(self) -> dict[str, SearchRange]:
        """Ranges by dotted name."""
        blocks = {"training": self.training, "model": self.model}
        return {
            f"{block}.{name}": found for block, ranges in blocks.items() for name, found in ranges.items()
        }


class TuningParameters(BaseModel):
    """How options are searched.

    Attributes:
        n_trials: trials to be finished in all, those of earlier runs included.
        workers: processes that try options at the same time.
        seed: of the search.
        fit_seed: of every trial's fit.
        random_trials: the first trials are random, the later ones drawn by what these have shown (TPE).
        pruning: end a trial whose GAUC after an evaluation is below the median of the trials before it.
        unpruned_trials: this many finished trials come first.
        unpruned_evaluations: nor is a trial ended after its first evaluations, this many.
        ranges: what may be searched.
        searched: dotted names of what is searched for every row that `rows` leaves out.
        rows: likewise for single rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_trials: int = Field(40, ge=1)
    workers: int = Field(1, ge=1)
    seed: int = Field(0, ge=0)
    fit_seed: int = Field(1, ge=0)
    random_trials: int = Field(10, ge=1)
    pruning: bool = True
    unpruned_trials: int = Field(5, ge=1)
    unpruned_evaluations: int = Field(1, ge=0)
    ranges: SearchRanges
    searched: tuple[str, ...] = Field(min_length=1)
    rows: dict[str, tuple[str, ...]] = {}

    @model_validator(mode="after")
    def _ranges_are_given(self) -> "TuningParameters":
        known = self.ranges.by_name()
        for where, names in {"searched": self.searched, **self.rows}.items():
            if unknown := [name for name in names if name not in known]:
                raise ValueError(
                    f"{where}: {', '.join(unknown)} has no range; add it under ranges, where "
                    f"{', '.join(known) or 'nothing'} has one"
                )
        for model in self.rows:
            find_model(model)
        return self

    def ranges_of(self, model: str) -> dict[str, SearchRange]:
        """What is searched for a row, by dotted name.

        Raises:
            InputError: the row's model has no such option, or the option cannot have a value of its range.
        """
        names = self.rows.get(model, self.searched)
        options = _options_of(model, names)
        known = self.ranges.by_name()
        for name in names:
            _check_values(name, known[name], options[name])
        return {name: known[name] for name in names}


def _options_of(model: str, names: Iterable[str]) -> dict[str, FieldInfo]:
    """All options of a row's model and of the training by dotted name, those asked for among them."""
    options = {f"model.{name}": field for name, field in find_model(model).load().Config.model_fields.items()}
    options |= {f"training.{name}": field for name, field in TrainingOptions.model_fields.items()}
    if unknown := [name for name in names if name not in options]:
        raise InputError(
            f"tuning.rows.{model}: {', '.join(unknown)} is no option of {model}; its options are {', '.join(options)}"
        )
    return options


def _check_values(name: str, found: SearchRange, option: FieldInfo) -> None:
    allowed = TypeAdapter(Annotated[option.annotation, option])
    for value in found.examples():
        try:
            allowed.validate_python(value)
        except ValidationError as error:
            raise InputError(
                f"tuning.ranges.{name}: it cannot be {value} ({error.errors()[0]['msg']}); mend the range, with integer: true "
                "for whole numbers"
            ) from error
