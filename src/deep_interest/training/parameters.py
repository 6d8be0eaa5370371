"""What a user may say about training: the recipe (how a model is fitted) and the run (where and how often)."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    field_validator,
    model_validator,
)

from deep_interest.config import as_list
from deep_interest.models.config import ModelConfig
from deep_interest.models.registry import MODELS, model_config
from deep_interest.ops.runtime.engine import Engine


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
        shuffle: ``samples`` one by one, or ``requests``: samples of one user and one history stay together, as the
            impressions of a request or a positive and its drawn negative do, and what depends on the history alone is
            computed once for them.
        epochs: at most this many.
        evaluations_per_epoch: validations within an epoch, evenly spaced.
        max_len: behaviours in a history, in training and in evaluation; the oldest are cut.
        gradient_norm: the gradient's norm is clipped to it; no clipping if left out.
        l2: λ of the L2 penalty ``λ / 2 · |w_j|²`` on the embedding rows that a batch touches.
        mba: λ of the mini-batch aware penalty, ``λ / (2 n_j) · |w_j|²`` (DIN eq. 6).
        difacto: λ of the penalty that grows with an id's occurrences in the batch (DIN §6.5).
        decoupled: the penalties act beside the optimiser's step and do not pass through its moments.
        behavior_dropout: share of each history's behaviours that a training step leaves out at random (DIN §6.5: 0.5).
        unknown: embedding rows that no training sample looks up, the unknown id's above all: the ``mean`` of the
            trained rows, or ``untrained``, their random initial values.
        watch_test: the learning curves also show the test set's figures, for DIN Fig. 4; nothing is selected by them.
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
    shuffle: Literal["samples", "requests"] = "samples"
    epochs: int = Field(20, ge=1)
    evaluations_per_epoch: int = Field(1, ge=1)
    max_len: int = Field(100, ge=1)
    gradient_norm: float | None = Field(None, gt=0)
    l2: float = Field(0.0, ge=0)
    mba: float = Field(0.0, ge=0)
    difacto: float = Field(0.0, ge=0)
    decoupled: bool = False
    behavior_dropout: float = Field(0.0, ge=0, lt=1)
    unknown: Literal["mean", "untrained"] = "mean"
    watch_test: bool = False


def _known(options: dict[str, Any]) -> dict[str, Any]:
    TrainingOptions.model_validate(options)
    return options


KnownOptions = Annotated[dict[str, Any], AfterValidator(_known)]
"""Some of the training options, by name; an unknown name or a bad value is an error."""


class RowOptions(RootModel[dict[str, Any]]):
    """The block of one row: options of its model, and under ``training`` those training options that make it the row.

    ``din_mba`` is a DIN whose training has the mini-batch aware penalty.
    """

    @model_validator(mode="after")
    def _training_is_known(self) -> "RowOptions":
        _known(self.training)
        return self

    @property
    def model(self) -> dict[str, Any]:
        return {name: value for name, value in self.root.items() if name != "training"}

    @property
    def training(self) -> dict[str, Any]:
        return self.root.get("training", {})


class RecipeRow(BaseModel):
    """What a recipe says of one row.

    Attributes:
        training: training options.
        model: options of the row's model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    training: KnownOptions = {}
    model: dict[str, Any] = {}


class Recipe(BaseModel):
    """A named way to fit every model.

    Attributes:
        training: options of the training.
        model: options for every model that has them (``embedding_dim``, ``hidden``, …).
        rows: what goes before both for single rows, by model key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    training: KnownOptions = {}
    model: dict[str, Any] = {}
    rows: dict[str, RecipeRow] = {}

    def training_of(self, key: str, row: RowOptions, overrides: dict[str, Any]) -> TrainingOptions:
        """The training options of a row: the recipe's, before them the row's own, the recipe's for it, the run's."""
        return TrainingOptions.model_validate(
            self.training | row.training | self._row(key).training | overrides
        )

    def model_of(self, key: str, row: RowOptions) -> ModelConfig:
        """The model options of a row: the recipe's, before them the row's own, and the recipe's for it."""
        return model_config(key, row.model | self._row(key).model, common=self.model)

    def with_values(self, key: str, values: dict[str, Any]) -> "Recipe":
        """The recipe with values for one row that go before all others of it; ``training.mba`` is the option ``mba`` of ``training``."""
        row = self._row(key)
        blocks: dict[str, dict[str, Any]] = {"training": dict(row.training), "model": dict(row.model)}
        for name, value in values.items():
            block, option = name.split(".", 1)
            blocks[block][option] = value
        return self.model_copy(update={"rows": {**self.rows, key: RecipeRow(**blocks)}})

    def _row(self, key: str) -> RecipeRow:
        return self.rows.get(key, RecipeRow())

    @field_validator("rows")
    @classmethod
    def _rows_are_models(cls, rows: dict[str, RecipeRow]) -> dict[str, RecipeRow]:
        for key, row in rows.items():
            if key not in MODELS:
                raise ValueError(f"{key} is no model; the models are {', '.join(MODELS)}")
            if row.model:
                model_config(key, row.model)
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
        engine: ``compiled`` runs our kernels, ``plain`` the implementations in torch and NumPy alone; the environment variable
            ``DEEP_INTEREST_ENGINE`` decides if left out, by default for ``compiled``.
        threads: CPU threads of a fit; one where fits run side by side, else torch's choice, if left out.
        processes: seeds of a row that are fitted side by side on the CPU; one a core if left out.
        recipe: overrides the datasets' own recipe.
        tuned: take the best values that ``tune.<dataset>.<model>`` has found for each row.
        options: overrides single training options of every recipe.
        evaluation_batch_size: samples scored at once.
        checkpoint_seconds: the state of a running fit is saved this often; a killed run resumes from there.
        workspace: folder of the running and finished fits.
        mlflow_uri: an MLflow server or database that is told of trained rows too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seeds: Annotated[tuple[int, ...] | None, BeforeValidator(as_list)] = Field(None, min_length=1)
    device: str = "auto"
    engine: Engine | None = None
    threads: int | None = Field(None, ge=1)
    processes: int | None = Field(None, ge=1)
    recipe: str | None = None
    tuned: bool = False
    options: KnownOptions = {}
    evaluation_batch_size: int = Field(4096, ge=1)
    checkpoint_seconds: float = Field(60, ge=0)
    workspace: str = "data/06_models"
    mlflow_uri: str | None = None
