"""The rows of the table: each model's key, its name in the papers, and its class.

A row's options are the block ``models.<key>`` of ``conf/base/parameters/models.yml``; several rows may share a class.
Classes are imported when a row is built, so that listing pipelines costs no import of torch.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from deep_interest.errors import InputError

if TYPE_CHECKING:
    from deep_interest.models.config import ModelConfig


@dataclass(frozen=True)
class ModelRow:
    """One row.

    Attributes:
        name: as the papers write it.
        path: ``module:Class`` below ``deep_interest.models``.
    """

    name: str
    path: str

    def load(self) -> Any:
        """The row's class; its ``Config`` describes the options."""
        module, name = self.path.split(":")
        return getattr(import_module(f"deep_interest.models.{module}"), name)


MODELS: dict[str, ModelRow] = {
    "popularity": ModelRow("Popularity", "popularity:Popularity"),
    "lr": ModelRow("LR", "lr:LR"),
    "base": ModelRow("BaseModel", "base:BaseModel"),
    "din": ModelRow("DIN", "din:DIN"),
    "din_softmax": ModelRow("DIN (softmax)", "din:DIN"),
    "din_dice": ModelRow("DIN with Dice", "din:DIN"),
}


def model_row(key: str) -> ModelRow:
    """The row of a key.

    Raises:
        InputError: no such row.
    """
    if key not in MODELS:
        raise InputError(f"model {key!r} is not known; the models are {', '.join(MODELS)}")
    return MODELS[key]


def model_config(key: str, options: dict[str, Any], *, common: dict[str, Any] | None = None) -> "ModelConfig":
    """Validated options of a row.

    Args:
        key: the row.
        options: the row's own options.
        common: a recipe's options for all models; those that this model does not have are passed over, and the row's
            own options go before them.
    """
    config = model_row(key).load().Config
    shared = {name: value for name, value in (common or {}).items() if name in config.model_fields}
    return config.model_validate(shared | options)
