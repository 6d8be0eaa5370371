"""Parameters of training: the recipe (how a model is fitted) and the run (where and how often)."""

from collections.abc import Mapping
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

from deep_interest.config import as_list, rename_key
from deep_interest.models.config import ModelConfig
from deep_interest.models.registry import MODELS, model_config
from deep_interest.ops.runtime.engine import Engine


class PositionWeights(BaseModel):
    """Weights of training rows by slot, with ``position: weights``.

    A click counts ``1 / examination`` of its slot, a row without a click 1: a skipped item may not have been seen, so its weight says
    nothing about the item. (Weights on all rows of a slot would leave the ranking biased: where the old ranker decided the slot, they cancel.)

    Attributes:
        examination: probability that each slot is examined, from the first one on, or ``harvest`` to estimate it from the log.
        same: with ``harvest``, the columns that impressions must agree in to be compared across slots: ``user``, ``request`` (the user and her
            history, as of one visit), features of the item and of the context. Within a group, chance must decide the slot.
        largest: largest weight of a click; larger ones are clipped.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    examination: Literal["harvest"] | tuple[Annotated[float, Field(gt=0, le=1)], ...] = "harvest"
    same: Annotated[tuple[str, ...], BeforeValidator(as_list)] = Field(("user", "item_id"), min_length=1)
    largest: float = Field(10.0, ge=1)


class TrainingOptions(BaseModel):
    """How one model is fitted.

    Attributes:
        optimizer: ``adam`` (row-sparse on the embedding tables: only touched rows and their moments move) or ``sgd``.
        learning_rate: learning rate of the first step.
        decay_rate: factor of the learning rate per decay (DIN §6.2: SGD from 1, × 0.1); 1 for no decay.
        decay_steps: number of steps between decays; one epoch if None.
        plateau_factor: factor of the learning rate after each evaluation without improvement; 1 for none.
        patience: number of consecutive evaluations without improvement after which training stops.
        selection: validation metric that selects the best evaluation.
        batch_size: samples per step.
        shuffle: ``samples`` one by one, or ``requests``: samples of the same user and history stay together, such as the
            impressions of a request or a positive and its sampled negative, so that everything that depends on the history
            alone is computed once.
        shuffle_window: number of neighbouring samples that are shuffled together; the windows come in a random order, so that samples
            and log are read part by part from files that are mapped into memory. None shuffles all samples.
        histories: behaviours that a training sample sees: the ``preceding`` ones, or a ``random`` part of the user's other
            behaviours, later ones included, which is drawn again in each epoch and shared by the samples of a user in a batch
            (protocol ``rated``, whose training users are not in the test set; see `training.random_histories`).
        epochs: maximum number of epochs.
        evaluations_per_epoch: number of evenly spaced validations per epoch.
        max_len: maximum length of a history, in training and in evaluation; the newest behaviours are kept.
        gradient_norm: maximum norm of the gradient, which is clipped to it; no clipping if None.
        updated_rows: embedding rows that a step updates: those that the ``batch`` touches, or ``all``, so that Adam's moments and L2 move
            rows in every step, as with a dense ``torch.optim.Adam`` with a weight decay; a step then takes longer the larger the tables are.
        l2: λ of the L2 penalty ``λ / 2 · |w_j|²`` on the embedding rows that a step updates.
        mba: λ of the mini-batch aware penalty, ``λ / (2 n_j) · |w_j|²`` (DIN eq. 6).
        difacto: λ of the penalty that grows with the occurrences of an id in the batch (DIN §6.5).
        decoupled: whether penalties are applied separately from the optimiser's step, without passing through its moments.
        behavior_dropout: dropout rate of behaviours in training (DIN §6.5: 0.5).
        unknown: value of embedding rows that no training sample looks up, such as the unknown row: the ``mean`` of the
            trained rows, or ``untrained``, their random initial values.
        watch_test: whether learning curves include the test set, for DIN Fig. 4; it is never used for selection.
        position: what training does with the slots of ``features.position``, if there are any: it learns their effect on the log-odds
            of a click (``logit``) or the probability that they are examined (``examination``), both of `training.position`, it weights clicks
            by the inverse of that probability (``weights``), or nothing (``ignore``).
        position_reference: slot in which items are scored as if shown; its effect is 0.
        position_weights: examination of the slots for ``weights``.
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
    shuffle_window: int | None = Field(None, ge=1)
    histories: Literal["preceding", "random"] = "preceding"
    epochs: int = Field(20, ge=1)
    evaluations_per_epoch: int = Field(1, ge=1)
    max_len: int = Field(100, ge=1)
    gradient_norm: float | None = Field(None, gt=0)
    updated_rows: Literal["batch", "all"] = "batch"
    l2: float = Field(0.0, ge=0)
    mba: float = Field(0.0, ge=0)
    difacto: float = Field(0.0, ge=0)
    decoupled: bool = False
    behavior_dropout: float = Field(0.0, ge=0, lt=1)
    unknown: Literal["mean", "untrained"] = "mean"
    watch_test: bool = False
    position: Literal["logit", "examination", "weights", "ignore"] = "logit"
    position_reference: int = Field(1, ge=1)
    position_weights: PositionWeights = PositionWeights()


def _known(options: dict[str, Any]) -> dict[str, Any]:
    TrainingOptions.model_validate(options)
    return options


KnownOptions = Annotated[dict[str, Any], AfterValidator(_known)]
"""A subset of the training options, by name; an unknown name or an invalid value is an error."""


class RowOptions(RootModel[dict[str, Any]]):
    """Configuration of a model: its options, and under ``training`` the training options that define the model variant.

    For example, ``din_mba`` is a DIN with the mini-batch aware penalty in its training options.
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


class RecipeModel(BaseModel):
    """Options of a recipe for a single model.

    Attributes:
        training: training options.
        model: model options.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    training: KnownOptions = {}
    model: dict[str, Any] = {}


class Recipe(BaseModel):
    """A named set of options for fitting all models.

    Attributes:
        extends: name of another recipe, whose options hold where this one has none.
        searched: models whose options a search has found; true for all those under ``models``.
        training: training options.
        model: options of every model that has them (``embedding_dim``, ``hidden``, …).
        models: options of single models, by key, which take precedence over both.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    extends: str | None = None
    searched: tuple[str, ...] = ()
    training: KnownOptions = {}
    model: dict[str, Any] = {}
    models: dict[str, RecipeModel] = {}

    @model_validator(mode="before")
    @classmethod
    def _complete_block(cls, block: Any) -> Any:
        block = rename_key(block, "rows", "models")
        if isinstance(block, Mapping) and isinstance(block.get("searched"), bool):
            return {**block, "searched": tuple(block.get("models", ())) if block["searched"] else ()}
        return block

    def training_of(self, key: str, row: RowOptions, overrides: dict[str, Any]) -> TrainingOptions:
        """Return the training options of a model: those of the recipe, overridden by those of the model, the recipe's for the
        model, and the run."""
        return TrainingOptions.model_validate(
            self.training | row.training | self._row(key).training | overrides
        )

    def model_of(self, key: str, row: RowOptions) -> ModelConfig:
        """Return the options of a model: those of the recipe, overridden by those of the model and the recipe's for the model."""
        return model_config(key, row.model | self._row(key).model, common=self.model)

    def with_values(self, key: str, values: dict[str, Any]) -> "Recipe":
        """Return the recipe with values that override all other options of a model, by dotted name such as ``training.mba``."""
        row = self._row(key)
        blocks: dict[str, dict[str, Any]] = {"training": dict(row.training), "model": dict(row.model)}
        for name, value in values.items():
            block, option = name.split(".", 1)
            blocks[block][option] = value
        return self.model_copy(update={"models": {**self.models, key: RecipeModel(**blocks)}})

    def over(self, other: "Recipe") -> "Recipe":
        """Return a recipe with the options of this one and, where it has none, those of another one."""
        models = {
            key: RecipeModel(
                training=other._row(key).training | self._row(key).training,
                model=other._row(key).model | self._row(key).model,
            )
            for key in {**other.models, **self.models}
        }
        searched = tuple(sorted({*other.searched, *self.searched}))
        return Recipe(
            searched=searched,
            training=other.training | self.training,
            model=other.model | self.model,
            models=models,
        )

    def _row(self, key: str) -> RecipeModel:
        return self.models.get(key, RecipeModel())

    @field_validator("models", "searched")
    @classmethod
    def _keys_are_models(cls, keys: Any) -> Any:
        for key in keys:
            if key not in MODELS:
                raise ValueError(f"{key} is not a model; the models are {', '.join(MODELS)}")
        return keys

    @field_validator("models")
    @classmethod
    def _models_have_their_options(cls, models: dict[str, RecipeModel]) -> dict[str, RecipeModel]:
        for key, options in models.items():
            if options.model:
                model_config(key, options.model)
        return models

    @field_validator("model")
    @classmethod
    def _some_model_has_it(cls, options: dict[str, Any]) -> dict[str, Any]:
        known = {name for row in MODELS.values() for name in row.config().model_fields} if options else set()
        if unknown := set(options) - known:
            raise ValueError(
                f"no model has the option {', '.join(unknown)}; the options are {', '.join(sorted(known))}"
            )
        return options


class Recipes(RootModel[dict[str, Recipe]]):
    """All recipes by name; each has the options of the recipe that it extends."""

    @field_validator("root")
    @classmethod
    def _complete(cls, recipes: dict[str, Recipe]) -> dict[str, Recipe]:
        names = sorted(recipes)  # the files of the configuration have no order
        return {name: _completed(recipes, (name,)) for name in names}


def _completed(recipes: dict[str, Recipe], chain: tuple[str, ...]) -> Recipe:
    """Return the last recipe of a chain, in which each extends the next, with the options of those that it extends."""
    name, extended = chain[-1], recipes[chain[-1]].extends
    if extended is None:
        return recipes[name]
    if extended not in recipes:
        raise ValueError(
            f"{name} extends {extended}, which is unknown; the recipes are {', '.join(sorted(recipes))}"
        )
    if extended in chain:
        raise ValueError(f"{' extends '.join([*chain, extended])}; a recipe cannot extend itself")
    return recipes[name].over(_completed(recipes, (*chain, extended)))


class RunParameters(BaseModel):
    """Where and how often models are trained.

    Attributes:
        seeds: one fit per seed; tables show mean and standard deviation. The dataset's own seeds if None.
        device: ``auto`` uses CUDA if available; or ``cpu``, ``cuda``, ``cuda:1``, …
        engine: ``compiled`` runs the compiled kernels, ``plain`` the implementations in torch and NumPy; the environment variable
            ``DEEP_INTEREST_ENGINE``, or else ``compiled``, if None.
        threads: CPU threads per fit; if None, one for parallel fits, otherwise torch's default.
        processes: number of parallel fits on the CPU; one per core if None.
        recipe: recipe to use instead of the dataset's own.
        tuned: whether to use the best values that ``tune.<dataset>.<model>`` has found, or, with ``leaderboard``, those that
            ``leaderboard.<dataset>`` has found.
        options: training options that override those of every recipe.
        evaluation_batch_size: samples per batch in evaluation.
        checkpoint_seconds: interval in seconds at which the state of a fit is saved; a killed run resumes from it.
        workspace: folder of running and finished fits.
        mlflow_uri: MLflow server or database to which trained models are logged as well.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seeds: Annotated[tuple[int, ...] | None, BeforeValidator(as_list)] = Field(None, min_length=1)
    device: str = "auto"
    engine: Engine | None = None
    threads: int | None = Field(None, ge=1)
    processes: int | None = Field(None, ge=1)
    recipe: str | None = None
    tuned: bool | Literal["leaderboard"] = False
    options: KnownOptions = {}
    evaluation_batch_size: int = Field(4096, ge=1)
    checkpoint_seconds: float = Field(60, ge=0)
    workspace: str = "data/06_models"
    mlflow_uri: str | None = None
