"""Parameters of the block ``tuning``: which options are searched for which model, in which ranges, and for how long."""

import json
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from deep_interest.config import rename_key
from deep_interest.errors import InputError
from deep_interest.models.registry import find_model
from deep_interest.training.parameters import TrainingOptions

SET_BY_THE_SEARCH = {
    "selection",
    "watch_test",
}  # a trial is judged by validation GAUC and never sees the test set


Choice = bool | int | float | str | tuple[int, ...]
"""A value among which a search chooses."""


def drawn_choice(choice: Choice | list[int]) -> bool | int | float | str:
    """Return a choice as a study stores it: widths such as ``[200, 80]`` as the string ``200-80``."""
    return "-".join(map(str, choice)) if isinstance(choice, tuple | list) else choice


def _choice(word: str) -> Any:
    """Return a choice as ``--params`` has it: a number, a truth value, text, or widths as a study stores them, such as ``200-80``."""
    if re.fullmatch(r"\d+(-\d+)+", word):
        return list(map(int, word.split("-")))
    try:
        return json.loads(word)
    except ValueError:
        return word


class SearchRange(BaseModel):
    """Values among which one option is searched: an interval, or a list of choices.

    Attributes:
        low: lower bound, included.
        high: upper bound, included.
        log: search on a logarithmic scale.
        integer: search whole numbers only.
        choices: values to choose from, in place of the bounds; the widths of an MLP's layers are one value, such as ``[200, 80]``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float | None = None
    high: float | None = None
    log: bool = False
    integer: bool = False
    choices: tuple[Choice, ...] | None = None

    @field_validator("choices", mode="before")
    @classmethod
    def _from_words(cls, choices: Any) -> Any:
        """Accept choices in the form that ``--params`` allows, ``choices=50 100 200``."""
        return list(map(_choice, choices.split())) if isinstance(choices, str) else choices

    @model_validator(mode="after")
    def _is_a_range(self) -> "SearchRange":
        if self.choices is not None:
            if self.low is not None or self.high is not None or len(self.choices) < 2:
                raise ValueError("expected either low and high, or at least two choices")
            return self
        if self.low is None or self.high is None or not self.low < self.high:
            raise ValueError(f"expected low below high, found low {self.low} and high {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic scale needs low above 0, found {self.low}; remove log")
        if self.integer and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"expected whole numbers, found low {self.low} and high {self.high}")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """``low`` and ``high`` of a range without choices."""
        assert self.low is not None and self.high is not None
        return self.low, self.high

    @property
    def drawn_choices(self) -> list[bool | int | float | str]:
        """The choices as a study stores them: widths such as ``[200, 80]`` as the string ``200-80``."""
        return [drawn_choice(choice) for choice in self.choices or ()]

    def value_of(self, drawn: Any) -> Any:
        """Return the value of the option that a study has stored as ``drawn``."""
        return drawn if self.choices is None else self.choices[self.drawn_choices.index(drawn)]

    def nearest(self, value: Any) -> Any:
        """Return the value of the range that is nearest to ``value``, as a study stores it; None if none is comparable."""
        if self.choices is not None:
            return _nearest_choice(self.choices, value)
        if not _is_number(value):
            return None
        low, high = self.bounds
        clipped = min(max(value, low), high)
        return int(clipped) if self.integer else float(clipped)

    def examples(self) -> list[Choice]:
        """Return all choices, or the bounds and, unless only integers are searched, a fractional value between them."""
        if self.choices is not None:
            return list(self.choices)
        low, high = self.bounds
        if self.integer:
            return [int(low), int(high)]
        return [low, high, low + (high - low) / math.pi]


class SearchRanges(BaseModel):
    """Search ranges by option.

    Attributes:
        training: ranges of training options; the dotted name of ``mba`` is ``training.mba``.
        model: ranges of model options; the dotted name of ``aux_weight`` is ``model.aux_weight``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    training: dict[str, SearchRange] = {}
    model: dict[str, SearchRange] = {}

    @model_validator(mode="after")
    def _training_options_exist(self) -> "SearchRanges":
        if unknown := set(self.training) - set(TrainingOptions.model_fields):
            raise ValueError(
                f"training.{', training.'.join(sorted(unknown))} is not a training option; the options are "
                f"{', '.join(TrainingOptions.model_fields)}"
            )
        if fixed := SET_BY_THE_SEARCH & set(self.training):
            raise ValueError(
                f"training.{', training.'.join(sorted(fixed))} is set by the search itself; remove it"
            )
        return self

    def by_name(self) -> dict[str, SearchRange]:
        """Return the ranges by dotted name."""
        blocks = {"training": self.training, "model": self.model}
        return {
            f"{block}.{name}": searched
            for block, ranges in blocks.items()
            for name, searched in ranges.items()
        }


def _checked_address(address: str) -> str:
    from deep_interest.tuning.storage import check_address  # noqa: PLC0415  # imports Optuna

    return check_address(address)


class TuningParameters(BaseModel):
    """Parameters of a search.

    Attributes:
        n_trials: number of trials to finish, including those of earlier runs.
        workers: number of processes that run trials at the same time, on each machine.
        storage: PostgreSQL server whose study several machines share, ``postgresql://USER@HOST/DATABASE``; a file of this machine
            if None. The password is read from the environment variable ``DEEP_INTEREST_TUNING_PASSWORD``.
        lost_after_seconds: time after which a trial of a shared study is repeated if its machine no longer reports.
        processor_minutes: processor time of the finished trials after which no further trial is started; no limit if None.
        seed: seed of the sampler that draws options.
        fit_seed: seed of the training run of every trial.
        random_trials: number of first trials with random options; later ones are drawn by the Tree-structured Parzen Estimator.
        pruning: stop a trial whose validation GAUC is below the median of the earlier trials at the same evaluation.
        unpruned_trials: number of trials to finish before any is stopped.
        unpruned_evaluations: number of first evaluations of a trial after which it is not stopped.
        ranges: search ranges of the options.
        searched: dotted names of the options to search for models that ``models`` does not list.
        models: dotted names of the options to search, by model key.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True
    )  # storage may have a password

    n_trials: int = Field(40, ge=1)
    workers: int = Field(1, ge=1)
    storage: Annotated[str, AfterValidator(_checked_address)] | None = None
    lost_after_seconds: int = Field(120, ge=4)
    processor_minutes: float | None = Field(None, gt=0)
    seed: int = Field(0, ge=0)
    fit_seed: int = Field(1, ge=0)
    random_trials: int = Field(10, ge=1)
    pruning: bool = True
    unpruned_trials: int = Field(5, ge=1)
    unpruned_evaluations: int = Field(1, ge=0)
    ranges: SearchRanges
    searched: tuple[str, ...] = Field(min_length=1)
    models: dict[str, tuple[str, ...]] = {}

    @model_validator(mode="before")
    @classmethod
    def _rename_rows(cls, block: Any) -> Any:
        return rename_key(block, "rows", "models")

    @model_validator(mode="after")
    def _searched_options_have_ranges(self) -> "TuningParameters":
        ranges = self.ranges.by_name()
        for where, names in {"searched": self.searched, **self.models}.items():
            if unknown := [name for name in names if name not in ranges]:
                raise ValueError(
                    f"{where}: {', '.join(unknown)} has no range; add it under ranges, which has "
                    f"{', '.join(ranges) or 'none'}"
                )
        for model in self.models:
            find_model(model)
        return self

    def ranges_of(self, model: str) -> dict[str, SearchRange]:
        """Return the search ranges of a model by dotted name.

        Args:
            model: key of the model.

        Raises:
            InputError: the model does not have an option, or an option does not accept a value of its range.
        """
        return checked_ranges(model, self.models.get(model, self.searched), self.ranges, block="tuning")


def checked_ranges(
    model: str, names: Sequence[str], ranges: SearchRanges, *, block: str
) -> dict[str, SearchRange]:
    """Return the ranges of some options of a model by dotted name.

    Args:
        model: key of the model.
        names: dotted names of the options.
        ranges: ranges of these options and of others.
        block: block of parameters that has the ranges, for messages.

    Raises:
        InputError: the model does not have an option, or an option does not accept a value of its range.
    """
    options = options_of(model)
    if unknown := [name for name in names if name not in options]:
        raise InputError(
            f"{block}.models.{model}: {', '.join(unknown)} is not an option of {model}; its options are {', '.join(options)}"
        )
    by_name = ranges.by_name()
    for name in names:
        _check_values(f"{block}.ranges.{name}", by_name[name], options[name])
    return {name: by_name[name] for name in names}


def options_of(model: str) -> dict[str, FieldInfo]:
    """Return all options of a model and of its training by dotted name."""
    options = {f"model.{name}": field for name, field in find_model(model).config().model_fields.items()}
    return options | {f"training.{name}": field for name, field in TrainingOptions.model_fields.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _nearest_choice(choices: Sequence[Choice], value: Any) -> bool | int | float | str | None:
    value = tuple(value) if isinstance(value, list | tuple) else value
    if value in choices:
        return drawn_choice(choices[choices.index(value)])
    numbers = [float(choice) for choice in choices if isinstance(choice, int | float)]
    if not _is_number(value) or len(numbers) < len(choices) or any(isinstance(c, bool) for c in choices):
        return None
    distances = [abs(number - value) for number in numbers]
    return drawn_choice(choices[distances.index(min(distances))])


def _check_values(where: str, searched: SearchRange, option: FieldInfo) -> None:
    annotated: Any = Annotated[option.annotation, option]
    allowed = TypeAdapter(annotated)
    for value in searched.examples():
        try:
            allowed.validate_python(value)
        except ValidationError as error:
            raise InputError(
                f"{where}: the option does not accept {value} ({error.errors()[0]['msg']}); correct the range, with "
                "integer: true for whole numbers"
            ) from error
