"""All models: key, name in the papers, and class.

The options of a model are the block ``models.<key>`` of ``conf/base/parameters/models.yml``; several models may share a
class. Classes are imported when a model is built, so that neither listing pipelines nor validating options imports torch.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin

from deep_interest.errors import InputError

if TYPE_CHECKING:
    from deep_interest.logs.schema import FeatureSchema
    from deep_interest.models.config import ModelConfig


Family = Literal["simple", "pooled", "attention", "recurrent", "transformer", "long"]
"""``simple``: counts and linear models; ``pooled``: a sum or mean of the behaviours; ``long``: made for histories of thousands of behaviours; the
others as their names say."""


@dataclass(frozen=True)
class ModelSpec:
    """A model.

    Attributes:
        name: name in the papers.
        path: ``module:Class`` under ``deep_interest.models``.
        family: how the model represents a user's behaviours; the graph of a dataset has one box per family.
        baseline: whether the interest models are compared with it.
        ablation: whether it is only part of an ablation table.
        closed_form: whether it is fitted in one step, so that it can neither be tuned nor retrained.
        impressions: whether it needs impressions: it is meaningless if every user has as many positives as negatives.
        on_request: whether only datasets that list it in ``models`` have it in their table.
    """

    name: str
    path: str
    family: Family
    baseline: bool = False
    ablation: bool = False
    closed_form: bool = False
    impressions: bool = False
    on_request: bool = False

    def load(self) -> Any:
        """Import the class; its ``Config`` describes the options."""
        module, name = self.path.split(":")
        return getattr(import_module(f"deep_interest.models.{module}"), name)

    def config(self) -> "type[ModelConfig]":
        """Import the class of the options: ``<Class>Config`` of the module's namesake in ``models.configs``, without torch.

        A model without it has its options in its own module, ``<Class>.Config``.
        """
        module, name = self.path.split(":")
        configs = f"deep_interest.models.configs.{module}"
        if find_spec(configs) and (config := getattr(import_module(configs), f"{name}Config", None)):
            return cast("type[ModelConfig]", config)
        return cast("type[ModelConfig]", self.load().Config)


MODELS: dict[str, ModelSpec] = {
    "popularity": ModelSpec("Popularity", "popularity:Popularity", "simple", baseline=True, closed_form=True),
    "item_rate": ModelSpec(
        "Item rate (smoothed)", "popularity:ItemRate", "simple", baseline=True, closed_form=True
    ),
    "item_knn": ModelSpec("Item kNN", "item_knn:ItemKNN", "simple", baseline=True, closed_form=True),
    "asvd": ModelSpec("Asymmetric SVD", "asvd:ASVD", "simple", baseline=True),
    "boosted": ModelSpec("Boosted trees", "boosted:Boosted", "simple", baseline=True, closed_form=True),
    "lr": ModelSpec("LR", "lr:LR", "simple", baseline=True),
    "base": ModelSpec("BaseModel", "base:BaseModel", "pooled", baseline=True),
    "base_mba": ModelSpec("BaseModel with MBA Reg.", "base:BaseModel", "pooled"),
    "user_only": ModelSpec("User only", "user_only:UserOnly", "pooled", impressions=True),
    "fm": ModelSpec("FM", "fm:FM", "simple", baseline=True),
    "wide_deep": ModelSpec("Wide&Deep", "wide_deep:WideDeep", "pooled", baseline=True),
    "pnn": ModelSpec("PNN", "pnn:PNN", "pooled", baseline=True),
    "pnn_mba": ModelSpec("PNN with MBA Reg.", "pnn:PNN", "pooled"),
    "deepfm": ModelSpec("DeepFM", "deepfm:DeepFM", "pooled", baseline=True),
    "lstm": ModelSpec("LSTM", "lstm:LSTM", "recurrent"),
    "din": ModelSpec("DIN", "din:DIN", "attention"),
    "din_softmax": ModelSpec("DIN (softmax)", "din:DIN", "attention"),
    "din_positions": ModelSpec("DIN (softmax, positions)", "din:DIN", "attention"),
    "din_dice": ModelSpec("DIN with Dice", "din:DIN", "attention"),
    "din_mba": ModelSpec("DIN with MBA Reg.", "din:DIN", "attention"),
    "din_mba_dice": ModelSpec("DIN with MBA Reg. and Dice", "din:DIN", "attention"),
    "din_softmax_mba": ModelSpec("DIN (softmax) with MBA Reg.", "din:DIN", "attention"),
    "gru_attention": ModelSpec("Two-layer GRU attention", "dien:DIEN", "recurrent"),
    "gru_aigru": ModelSpec("BaseModel+GRU+AIGRU", "dien:DIEN", "recurrent"),
    "gru_agru": ModelSpec("BaseModel+GRU+AGRU", "dien:DIEN", "recurrent"),
    "gru_augru": ModelSpec("BaseModel+GRU+AUGRU", "dien:DIEN", "recurrent"),
    "dien": ModelSpec("DIEN", "dien:DIEN", "recurrent"),
    "dien_mba": ModelSpec("DIEN with MBA Reg.", "dien:DIEN", "recurrent"),
    "dien_infonce": ModelSpec("DIEN (InfoNCE)", "dien:DIEN", "recurrent"),
    "bst": ModelSpec("BST", "bst:BST", "transformer"),
    "dmin": ModelSpec("DMIN", "dmin:DMIN", "transformer"),
    "nade": ModelSpec("CF-NADE", "nade:NADE", "pooled", on_request=True),
    "base_matches": ModelSpec("BaseModel with match counts", "base:BaseModel", "pooled", on_request=True),
    "din_matches": ModelSpec("DIN with match counts", "din:DIN", "attention", on_request=True),
    "dien_matches": ModelSpec("DIEN with match counts", "dien:DIEN", "recurrent", on_request=True),
    "din_newest": ModelSpec("DIN (newest 50)", "din:DIN", "long", on_request=True),
    "sim_hard": ModelSpec("SIM (hard)", "sim:SIM", "long", on_request=True),
    "sim_soft": ModelSpec("SIM (soft)", "sim:SIM", "long", on_request=True),
    "eta": ModelSpec("ETA", "eta:ETA", "long", on_request=True),
    "sdim": ModelSpec("SDIM", "sdim:SDIM", "long", on_request=True),
    "twin": ModelSpec("TWIN", "twin:TWIN", "long", on_request=True),
    "stca": ModelSpec("STCA", "stca:STCA", "long", on_request=True),
    "din_light": ModelSpec("DIN (light)", "rocket:LightDIN", "attention", on_request=True),
    "dien_light": ModelSpec("DIEN (light)", "rocket:LightDIEN", "recurrent", on_request=True),
    "din_distilled": ModelSpec("DIN (light), distilled", "rocket:LightDIN", "attention", ablation=True),
    "dien_distilled": ModelSpec("DIEN (light), distilled", "rocket:LightDIEN", "recurrent", ablation=True),
    "din_light_alone": ModelSpec("DIN (light) alone", "rocket:LightDIN", "attention", ablation=True),
    "dien_light_alone": ModelSpec("DIEN (light) alone", "rocket:LightDIEN", "recurrent", ablation=True),
    "base_items": ModelSpec("BaseModel, items only", "base:BaseModel", "pooled", ablation=True),
    "din_items": ModelSpec("DIN, items only", "din:DIN", "attention", ablation=True),
    "dien_items": ModelSpec("DIEN, items only", "dien:DIEN", "recurrent", ablation=True),
    "reg_no_goods": ModelSpec("BaseModel without item ids", "base:BaseModel", "pooled", ablation=True),
    "reg_none": ModelSpec("BaseModel without regularisation", "base:BaseModel", "pooled", ablation=True),
    "reg_dropout": ModelSpec("BaseModel with dropout", "base:BaseModel", "pooled", ablation=True),
    "reg_filter": ModelSpec("BaseModel with filter", "base:BaseModel", "pooled", ablation=True),
    "reg_difacto": ModelSpec("BaseModel with DiFacto Reg.", "base:BaseModel", "pooled", ablation=True),
    "reg_mba": ModelSpec("BaseModel with MBA Reg.", "base:BaseModel", "pooled", ablation=True),
}


def find_model(key: str) -> ModelSpec:
    """Look up a model.

    Raises:
        InputError: there is no model with that key.
    """
    if key not in MODELS:
        raise InputError(f"model {key!r} is unknown; the models are {', '.join(MODELS)}")
    return MODELS[key]


def model_config(key: str, options: dict[str, Any], *, common: dict[str, Any] | None = None) -> "ModelConfig":
    """Validate the options of a model.

    Args:
        key: key of the model.
        options: options of the model.
        common: options of a recipe for all models; those that this model does not have, or that have a single value, are ignored, and ``options``
            take precedence.
    """
    config = find_model(key).config()
    shared = {
        name: value
        for name, value in (common or {}).items()
        if name in config.model_fields and not _is_fixed(config.model_fields[name].annotation)
    }
    return config.model_validate(shared | options)


def _is_fixed(annotation: Any) -> bool:
    """Return whether an option has a single value, as those of a base class that a model does not have."""
    return annotation is type(None) or (get_origin(annotation) is Literal and len(get_args(annotation)) == 1)


def stored_config(key: str, options: dict[str, Any]) -> "ModelConfig":
    """Validate the options that a version or checkpoint has stored.

    Those of a version that was trained before the option ``own_dim`` existed lack it: all its embeddings are equally wide.

    Args:
        key: key of the model.
        options: all options of the model.
    """
    fields = find_model(key).config().model_fields
    return model_config(key, {"own_dim": None} | options if "own_dim" in fields else options)


def build_model(key: str, config: "ModelConfig", schema: "FeatureSchema") -> Any:
    """Build a newly initialised model.

    Args:
        key: key of the model.
        config: its options, from `model_config`.
        schema: feature groups of the dataset; the model does not see the fields in ``config.without``, nor those that only a behaviour
            has if ``config.own_fields`` is ``none``.
    """
    schema = schema.without(config.without)
    if getattr(config, "own_fields", None) == "none":
        schema = schema.items_only
    return find_model(key).load()(config, schema)
