"""Parameters of the block ``leaderboard``: the budget and the search space that all models of a leaderboard share."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from deep_interest.config import as_list
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.registry import find_model
from deep_interest.training.experiment import Experiment
from deep_interest.tuning.parameters import SearchRange, SearchRanges, checked_ranges, options_of

WEIGHTS = ("training.mba", "training.difacto", "model.aux_weight", "model.hint_weight")
"""Weights of penalties and losses: a model whose configuration has 0 does not have the penalty or the loss."""

MAX_LEN = "training.max_len"
ITEM_BIAS = "model.item_bias"
INTEREST_PRODUCT = "model.interest_product"
L2 = ("training.l2", "training.updated_rows")
OTHER_PENALTIES = ("mba", "difacto")  # in place of L2


class LeaderboardParameters(BaseModel):
    """Parameters of a leaderboard.

    Attributes:
        n_trials: number of trials of every model.
        processor_minutes: processor time of a model's trials after which no further trial is started; no limit if None.
        seeds: seeds of the fits with the best options; ``training.seeds`` overrides them.
        known: recipe of an earlier leaderboard; models that it has searched keep its options and get no trials.
        ranges: search ranges of the options.
        searched: dotted names of the options to search, each in every model that has the option.
        models: dotted names of the options to search in place of ``searched``, by model key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_trials: int = Field(24, ge=1)
    processor_minutes: float | None = Field(None, gt=0)
    seeds: Annotated[tuple[int, ...], BeforeValidator(as_list)] = Field((1, 2, 3, 4, 5), min_length=1)
    known: str | None = None
    ranges: SearchRanges
    searched: tuple[str, ...] = Field(min_length=1)
    models: dict[str, tuple[str, ...]] = {}

    @model_validator(mode="after")
    def _searched_options_have_ranges(self) -> "LeaderboardParameters":
        ranges = self.ranges.by_name()
        for where, names in {"searched": self.searched, **self.models}.items():
            if unknown := [name for name in names if name not in ranges]:
                raise ValueError(
                    f"{where}: {', '.join(unknown)} has no range; add it under ranges, which has {', '.join(ranges) or 'none'}"
                )
        for model in self.models:
            find_model(model)
        return self

    def check(self, models: Iterable[str]) -> None:
        """Check the ranges of all options that may be searched for some models.

        Raises:
            InputError: an option is not one of the model, or does not accept a value of its range.
        """
        for model in models:
            checked_ranges(model, self._candidates(model), self.ranges, block="leaderboard")

    def searched_of(
        self, experiment: Experiment, *, schema: FeatureSchema, of_dataset: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """Return the dotted names of the options to search for a model.

        An option is searched if the model has it, except

        - what the block ``models.<model>`` sets, because it defines the model, and what ``training.options`` of the run sets;
        - the weight of a penalty or loss that is 0 in the model's configuration; and L2 and its rows in models with another penalty;
        - ``max_len``, if the dataset's block sets it;
        - ``item_bias``, if the model sees no ``item_id`` of the candidate;
        - ``interest_product``, if behaviours share no field with the candidate, or ``gru_size`` sets the width of a history's vector.

        Args:
            experiment: dataset and model, with the recipe before the search.
            schema: feature groups of the dataset.
            of_dataset: training options that the dataset's block sets.
        """
        fixed = self._fixed(experiment, schema, of_dataset or {})
        return tuple(name for name in self._candidates(experiment.model) if name not in fixed)

    def _candidates(self, model: str) -> list[str]:
        """Return the names of options that are searched if nothing fixes them."""
        if model in self.models:
            return list(self.models[model])
        if find_model(model).closed_form:
            return []
        options = options_of(model)
        return [
            name for name in self.searched if name in options and not _has_one_value(options[name].annotation)
        ]

    @staticmethod
    def _fixed(experiment: Experiment, schema: FeatureSchema, of_dataset: Mapping[str, Any]) -> set[str]:
        config, training = experiment.config_and_options()
        schema = schema.without(config.without)
        values = {"model": config, "training": training}
        weights = {
            name: getattr(values[block], option, 0) for name in WEIGHTS for block, option in [name.split(".")]
        }
        fixed = {f"model.{name}" for name in experiment.options.model}
        fixed |= {f"training.{name}" for name in experiment.options.training}
        fixed = {name for name in fixed if name not in WEIGHTS}
        fixed |= {f"training.{name}" for name in experiment.run.options}
        fixed |= {name for name, weight in weights.items() if not weight}
        if any(getattr(training, name) for name in OTHER_PENALTIES):
            fixed.update(L2)
        if "max_len" in of_dataset:
            fixed.add(MAX_LEN)
        if all(field.name != ITEM_ID for field in schema.item):
            fixed.add(ITEM_BIAS)
        if not schema.shared or getattr(config, "gru_size", None) is not None:
            fixed.add(INTEREST_PRODUCT)
        return fixed


def first_values(experiment: Experiment, ranges: Mapping[str, SearchRange]) -> dict[str, Any]:
    """Return the options of an experiment before a search, or the nearest values of the ranges, as a study stores them.

    Options without a comparable value in their range are left out.
    """
    config, training = experiment.config_and_options()
    blocks = {"model": config, "training": training}
    values = {}
    for name, searched in ranges.items():
        block, option = name.split(".", 1)
        nearest = searched.nearest(getattr(blocks[block], option))
        if nearest is not None:
            values[name] = nearest
    return values


def _has_one_value(annotation: Any) -> bool:
    return annotation is type(None) or (get_origin(annotation) is Literal and len(get_args(annotation)) == 1)
