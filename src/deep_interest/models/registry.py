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
class ModelRow:
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


MODELS: dict[str, ModelRow] = {
    "popularity": ModelRow("Popularity", "popularity:Popularity", baseline=True, closed_form=True),
    "item_ctr": ModelRow("Item CTR (smoothed)", "popularity:ItemCTR", baseline=True, closed_form=True),
    "lr": ModelRow("LR", "lr:LR", baseline=True),
    "base": ModelRow("BaseModel", "base:BaseModel", baseline=True),
    "base_mba": ModelRow("BaseModel with MBA Reg.", "base:BaseModel"),
    "user_only": ModelRow("User only", "user_only:UserOnly", impressions=True),
    "fm": ModelRow("FM", "fm:FM", baseline=True),
    "wide_deep": ModelRow("Wide&Deep", "wide_deep:WideDeep", baseline=True),
    "pnn": ModelRow("PNN", "pnn:PNN", baseline=True),
    "pnn_mba": ModelRow("PNN with MBA Reg.", "pnn:PNN"),
    "deepfm": ModelRow("DeepFM", "deepfm:DeepFM", baseline=True),
    "lstm": ModelRow("LSTM", "lstm:LSTM"),
    "din": ModelRow("DIN", "din:DIN"),
    "din_softmax": ModelRow("DIN (softmax)", "din:DIN"),
    "din_positions": ModelRow("DIN (softmax, positions)", "din:DIN"),
    "din_dice": ModelRow("DIN with Dice", "din:DIN"),
    "din_mba": ModelRow("DIN with MBA Reg.", "din:DIN"),
    "din_mba_dice": ModelRow("DIN with MBA Reg. and Dice", "din:DIN"),
    "din_softmax_mba": ModelRow("DIN (softmax) with MBA Reg.", "din:DIN"),
    "gru_attention": ModelRow("Two-layer GRU attention", "dien:DIEN"),
    "gru_aigru": ModelRow("BaseModel+GRU+AIGRU", "dien:DIEN"),
    "gru_agru": ModelRow("BaseModel+GRU+AGRU", "dien:DIEN"),
    "gru_augru": ModelRow("BaseModel+GRU+AUGRU", "dien:DIEN"),
    "dien": ModelRow("DIEN", "dien:DIEN"),
    "dien_mba": ModelRow("DIEN with MBA Reg.", "dien:DIEN"),
    "dien_infonce": ModelRow("DIEN (InfoNCE)", "dien:DIEN"),
    "bst": ModelRow("BST", "bst:BST"),
    "dmin": ModelRow("DMIN", "dmin:DMIN"),
    "reg_no_goods": ModelRow("BaseModel without goods ids", "base:BaseModel", ablation=True),
    "reg_none": ModelRow("BaseModel without regularisation", "base:BaseModel", ablation=True),
    "reg_dropout": ModelRow("BaseModel with dropout", "base:BaseModel", ablation=True),
    "reg_filter": ModelRow("BaseModel with filter", "base:BaseModel", ablation=True),
    "reg_difacto": ModelRow("BaseModel with DiFacto Reg.", "base:BaseModel", ablation=True),
    "reg_mba": ModelRow("BaseModel with MBA Reg.", "base:BaseModel", ablation=True),
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


def build_model(key: str, config: "ModelConfig", schema: "FeatureSchema") -> Any:
    """A freshly initialised model of a row.

    Args:
        key: the row.
        config: its options, of `model_config`.
        schema: the dataset's feature groups; the model sees them without ``config.without``.
    """
    return model_row(key).load()(config, schema.without(config.without))
