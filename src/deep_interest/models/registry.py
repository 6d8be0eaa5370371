"""The rows of the table: each model's key, its name in the papers, and its class.

A row's options are the block ``models.<key>`` of ``conf/base/parameters/models.yml``; several rows may share a class.
Classes are imported when a row is built, so that listing pipelines costs no import of torch.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from deep_interest.errors import InputError

if TYPE_CHECKING:
    from deep_interest.logs.schema import FeatureSchema
    from deep_interest.models.config import ModelConfig


@dataclass(frozen=True)
class ModelSpec:
    """One row.

    Attributes:
        name: as the papers write it.
        path: ``module:Class`` below ``deep_interest.models``.
        baseline: one of the rows that the interest models are measured against.
        ablation: a row of an ablation table only.
        closed_form: fitted in one step; there is nothing to search, and nothing to go on from.
        impressions: a row for datasets with impressions only; where every user has as many positives as negatives it says nothing.
    """

    name: str
    path: str
    baseline: bool = False
    ablation: bool = False
    closed_form: bool = False
    impressions: bool = False

    def load(self) -> Any:
        """The row's class; its ``Config`` describes the options."""
        module, name = self.path.split(":")
        return getattr(import_module(f"deep_interest.models.{module}"), name)


MODELS: dict[str, ModelSpec] = {
    "popularity": ModelSpec("Popularity", "popularity:Popularity", baseline=True, closed_form=True),
    "item_ctr": ModelSpec("Item CTR (smoothed)", "popularity:ItemCTR", baseline=True, closed_form=True),
    "lr": ModelSpec("LR", "lr:LR", baseline=True),
    "base": ModelSpec("BaseModel", "base:BaseModel", baseline=True),
    "base_mba": ModelSpec("BaseModel with MBA Reg.", "base:BaseModel"),
    "user_only": ModelSpec("User only", "user_only:UserOnly", impressions=True),
    "fm": ModelSpec("FM", "fm:FM", baseline=True),
    "wide_deep": ModelSpec("Wide&Deep", "wide_deep:WideDeep", baseline=True),
    "pnn": ModelSpec("PNN", "pnn:PNN", baseline=True),
    "pnn_mba": ModelSpec("PNN with MBA Reg.", "pnn:PNN"),
    "deepfm": ModelSpec("DeepFM", "deepfm:DeepFM", baseline=True),
    "lstm": ModelSpec("LSTM", "lstm:LSTM"),
    "din": ModelSpec("DIN", "din:DIN"),
    "din_softmax": ModelSpec("DIN (softmax)", "din:DIN"),
    "din_positions": ModelSpec("DIN (softmax, positions)", "din:DIN"),
    "din_dice": ModelSpec("DIN with Dice", "din:DIN"),
    "din_mba": ModelSpec("DIN with MBA Reg.", "din:DIN"),
    "din_mba_dice": ModelSpec("DIN with MBA Reg. and Dice", "din:DIN"),
    "din_softmax_mba": ModelSpec("DIN (softmax) with MBA Reg.", "din:DIN"),
    "gru_attention": ModelSpec("Two-layer GRU attention", "dien:DIEN"),
    "gru_aigru": ModelSpec("BaseModel+GRU+AIGRU", "dien:DIEN"),
    "gru_agru": ModelSpec("BaseModel+GRU+AGRU", "dien:DIEN"),
    "gru_augru": ModelSpec("BaseModel+GRU+AUGRU", "dien:DIEN"),
    "dien": ModelSpec("DIEN", "dien:DIEN"),
    "dien_mba": ModelSpec("DIEN with MBA Reg.", "dien:DIEN"),
    "dien_infonce": ModelSpec("DIEN (InfoNCE)", "dien:DIEN"),
    "bst": ModelSpec("BST", "bst:BST"),
    "dmin": ModelSpec("DMIN", "dmin:DMIN"),
    "reg_no_goods": ModelSpec("BaseModel without goods ids", "base:BaseModel", ablation=True),
    "reg_none": ModelSpec("BaseModel without regularisation", "base:BaseModel", ablation=True),
    "reg_dropout": ModelSpec("BaseModel with dropout", "base:BaseModel", ablation=True),
    "reg_filter": ModelSpec("BaseModel with filter", "base:BaseModel", ablation=True),
    "reg_difacto": ModelSpec("BaseModel with DiFacto Reg.", "base:BaseModel", ablation=True),
    "reg_mba": ModelSpec("BaseModel with MBA Reg.", "base:BaseModel", ablation=True),
}


def model_row(key: str) -> ModelSpec:
    """The row of a key.

    Raises:
        InputError: no such row.
    """
    if key not in MODELS:
        raise InputError(f"model {key!r} is unknown; the models are {', '.join(MODELS)}")
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


def build_model(key: str, config: "ModelConfig", schema: "FeatureSchema") -> Any:
    """A freshly initialised model of a row.

    Args:
        key: the row.
        config: its options, of `model_config`.
        schema: the dataset's feature groups; the model sees them without ``config.without``.
    """
    return model_row(key).load()(config, schema.without(config.without))
