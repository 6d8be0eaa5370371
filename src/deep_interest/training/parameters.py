"""What a user may say about training: the recipe (how a model is fitted) and the run (where and how often)."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, field_validator

from deep_interest.models.registry import MODELS


class TrainingOptions(BaseModel):
    """How one model is fitted.

    Attributes:
        optimizer: ``adam`` (row-sparse on the embedding tables: only touched rows and their moments move) or ``sgd``.
        learning_rate: at the first step.
        decay_rate: the learning rate's factor (DIN §6.2: SGD from 1, × 0.1); 1 keeps it.
        decay_steps: after how many steps the factor applies, again and again; every epoch if left out.
        plateau_factor: the learning rate's factor after each evaluation without improvement; 1 keeps it.
        patience: stop after this many evaluations in a row without improvement.
        selection: the validation metric that picks the best evaluation.
        batch_size: samples a step.
        epochs: at most this many.
        evaluations_per_epoch: validations within an epoch, evenly spaced.
        max_len: behaviours in a history, in training and in evaluation; the oldest are cut.
        gradient_norm: the gradient's norm is clipped to it; no clipping if left out.
        l2: coefficient of the L2 penalty on the embedding rows that a batch touches, ``l2 / 2 · |w|²`` a row.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = Field(1e-3, gt=0)
    decay_rate: float = Field(1.0, gt=0, le=1)
    decay_steps: int | None = Field(None, ge=1)
    plateau_factor: float = Field(1.0, gt=0, le=1)
    patience: int = Field(2, ge=1)
    selection: Literal["gauc", "auc", "logloss"] = "gauc"
    batch_size: int = Field(512, ge=1)
    epochs: int = Field(20, ge=1)
    evaluations_per_epoch: int = Field(1, ge=1)
    max_len: int = Field(100, ge=1)
    gradient_norm: float | None = Field(None, gt=0)
    l2: float = Field(0.0, ge=0)


def _known(options: dict[str, Any]) -> dict[str, Any]:
    TrainingOptions.model_validate(options)
    return options


KnownOptions = Annotated[dict[str, Any], AfterValidator(_known)]
"""Some of the training options, by name; an unknown name or a bad value is an error."""


class Recipe(BaseModel):
    """A named way to fit every model.

    Attributes:
        training: options of the training.
        rows: training options of single rows, by model key, that go before ``training``.
        model: options for every model that has them (``embedding_dim``, ``hidden``, …).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    training: KnownOptions = {}
    rows: dict[str, KnownOptions] = {}
    model: dict[str, Any] = {}

    @field_validator("rows")
    @classmethod
    def _rows_are_models(cls, rows: dict[str, Any]) -> dict[str, Any]:
        if unknown := set(rows) - set(MODELS):
            raise ValueError(f"{', '.join(unknown)} is no model; the models are {', '.join(MODELS)}")
        return rows

    @field_validator("model")
    @classmethod
    def _some_model_has_it(cls, options: dict[str, Any]) -> dict[str, Any]:
        known = (
            {name for row in MODELS.values() for name in row.load().Config.model_fields} if options else set()
        )
        if unknown := set(options) - known:
            raise ValueError(
                f"no model has the option {', '.join(unknown)}; the options are {', '.join(sorted(known))}"
            )
        return options


class Recipes(RootModel[dict[str, Recipe]]):
    """All recipes by name."""


class RunParameters(BaseModel):
    """Where and how often models are trained.

    Attributes:
        seeds: one fit each, the table shows their mean and deviation; the datasets' own if left out.
        device: ``auto`` takes CUDA where there is one; or ``cpu``, ``cuda``, ``cuda:1``, …
        threads: CPU threads; torch's choice if left out.
        recipe: overrides the datasets' own recipe.
        options: overrides single training options of every recipe.
        evaluation_batch_size: samples scored at once.
        checkpoint_seconds: the state of a running fit is saved this often; a killed run resumes from there.
        workspace: folder of the running and finished fits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seeds: tuple[int, ...] | None = Field(None, min_length=1)
    device: str = "auto"
    threads: int | None = Field(None, ge=1)
    recipe: str | None = None
    options: KnownOptions = {}
    evaluation_batch_size: int = Field(4096, ge=1)
    checkpoint_seconds: float = Field(60, ge=0)
    workspace: str = "data/06_models"
