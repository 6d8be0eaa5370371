"""An experiment: a model on a dataset, and how it is trained."""

from dataclasses import dataclass

from deep_interest.models.config import ModelConfig
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters, TrainingOptions


@dataclass(frozen=True)
class Experiment:
    """A model on a dataset, and how it is trained.

    Attributes:
        dataset, model: keys of dataset and model.
        options: options of the model.
        recipe: training options and common model options.
        seeds: one fit per seed.
        run: device, workspace.
        variant: suffix of the model key in names and folders, such as ``_tuned``.
    """

    dataset: str
    model: str
    options: RowOptions
    recipe: Recipe
    seeds: tuple[int, ...]
    run: RunParameters
    variant: str = ""

    @property
    def model_variant(self) -> str:
        """Key of the model with its variant."""
        return f"{self.model}{self.variant}"

    @property
    def name(self) -> str:
        """``<dataset>.<model>`` with its variant."""
        return f"{self.dataset}.{self.model_variant}"

    def config_and_options(self) -> tuple[ModelConfig, TrainingOptions]:
        """Return the options of the model and of training, from recipe, model and run."""
        return (
            self.recipe.model_of(self.model, self.options),
            self.recipe.training_of(self.model, self.options, self.run.options),
        )

    def described(self) -> tuple[str, str, str]:
        """Return model, its options and those of training, for the fingerprint of a fit."""
        config, options = self.config_and_options()
        return self.model, config.model_dump_json(), options.model_dump_json()
