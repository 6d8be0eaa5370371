"""Which datasets and models exist: every pair of them is an experiment with a pipeline of its own.

Datasets whose raw files need their own reader are listed here; a dataset whose configuration declares its tables
(``source``) needs no code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from deep_interest.config import as_list, rename_key
from deep_interest.errors import InputError, did_you_mean
from deep_interest.models.registry import MODELS, ModelSpec

Source = Literal["amazon", "movielens", "tables"]


@dataclass(frozen=True)
class DatasetSpec:
    """One dataset.

    Attributes:
        source: reader of the raw files; ``tables`` reads the tables that the configuration declares.
        impressions: whether the source has impressions and profiles; its protocol is ``by_day`` or ``given``.
        models: keys of the models in its table; all if None.
        given_splits: whether the source gives the split of each impression, so that they are not split by day.
        given_histories: whether the source gives the history of each impression, so that users have no log of their own.
        simulated: whether its raw files are simulated.
        has_slots: whether the source names the slot of each impression.
    """

    source: Source
    impressions: bool = False
    models: tuple[str, ...] | None = None
    given_splits: bool = False
    given_histories: bool = False
    simulated: bool = False
    has_slots: bool = False

    @property
    def by_day(self) -> bool:
        """Whether it has impressions that are split by day."""
        return self.impressions and not self.given_splits

    @property
    def retrainable(self) -> bool:
        """Whether its models can be retrained on new days and score users."""
        return self.by_day and not self.given_histories


_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"  # of datasets and tests, which become names of pipelines
_RESERVED = (
    "simulate", "simulate_days", "backtest", "ingest", "samples", "train", "report", "tune", "tuned", "leaderboard", "retrain", "score",
    "parity", "worth", "abtest", "abtests", "ope", "delayed_clicks",
)  # fmt: skip

BUILT_IN: dict[str, DatasetSpec] = {
    "movielens_100k": DatasetSpec("movielens"),
    "movielens_latest_small": DatasetSpec("movielens"),
    "movielens_1m": DatasetSpec("movielens"),
    "movielens_20m": DatasetSpec("movielens"),
    "movielens_25m": DatasetSpec("movielens"),
    "movielens_32m": DatasetSpec("movielens"),
    "amazon_toys": DatasetSpec("amazon"),
    "amazon_beauty": DatasetSpec("amazon"),
    "amazon_sports": DatasetSpec("amazon"),
    "amazon_electronics": DatasetSpec("amazon"),
    "amazon_books": DatasetSpec("amazon"),
}


SIMULATED = "simulated"  # key of the simulated shop, and first part of the keys of its variants


def is_simulated(dataset: str) -> bool:
    """Return whether the raw files of a dataset are simulated."""
    return dataset == SIMULATED or dataset.startswith(f"{SIMULATED}_")


def datasets_of(blocks: Mapping[str, Any]) -> dict[str, DatasetSpec]:
    """Return all datasets by key: first those whose blocks declare tables, then the built-in ones.

    Args:
        blocks: configuration under ``datasets``.

    Raises:
        InputError: a key cannot name a pipeline, or ``models`` does not list models.
    """
    blocks = {key: block for key, block in blocks.items() if isinstance(block, Mapping)}
    for key in blocks:
        if not re.fullmatch(_NAME, str(key)):
            raise InputError(f"datasets: {key!r} is not a valid dataset name; use letters, digits, _ and -")
        if key in _RESERVED or key in ABLATIONS:
            raise InputError(
                f"datasets: {key} is the name of a pipeline; choose another name for the dataset"
            )
        if blocks[key].get("simulation") and not is_simulated(key):
            raise InputError(
                f"datasets.{key}.simulation: the name of a simulated dataset begins with {SIMULATED}_; rename the dataset, or remove "
                "simulation"
            )
    datasets = {
        key: _declared_spec(key, block)
        for key, block in blocks.items()
        if isinstance(block.get("source"), Mapping)
    } | BUILT_IN
    try:
        blocks = {key: rename_key(block, "rows", "models") for key, block in blocks.items()}
    except ValueError as error:
        raise InputError(f"datasets: {error}") from error
    chosen = {key: block["models"] for key, block in blocks.items() if block.get("models") is not None}
    return {
        key: replace(spec, models=_models(key, chosen[key])) if key in chosen else spec
        for key, spec in datasets.items()
    }


def abtest_names(blocks: Mapping[str, Any]) -> list[str]:
    """Return the names of all A/B tests.

    Args:
        blocks: configuration under ``abtests``.

    Raises:
        InputError: a key cannot name a pipeline.
    """
    return _names(blocks, "abtests", "a test")


def evaluation_names(blocks: Mapping[str, Any]) -> list[str]:
    """Return the names of all off-policy evaluations.

    Args:
        blocks: configuration under ``ope``.

    Raises:
        InputError: a key cannot name a pipeline.
    """
    return _names(blocks, "ope", "an off-policy evaluation")


def _names(blocks: Mapping[str, Any], where: str, what: str) -> list[str]:
    for key in blocks:
        if not re.fullmatch(_NAME, str(key)):
            raise InputError(f"{where}: {key!r} is not a valid name of {what}; use letters, digits, _ and -")
    return list(map(str, blocks))


def _declared_spec(key: str, block: Mapping[str, Any]) -> DatasetSpec:
    """Return the specification of a dataset that declares its tables; an invalid block fails later, when it is validated."""
    impressions = block["source"].get("impressions")
    if not impressions:
        return DatasetSpec("tables", simulated=is_simulated(key))
    protocol, features = block.get("protocol"), block.get("features")
    tables = impressions if isinstance(impressions, list | tuple) else [impressions]
    return DatasetSpec(
        "tables", impressions=True, simulated=is_simulated(key), given_splits=isinstance(protocol, Mapping) and protocol.get("name") == "given",
        given_histories=any(isinstance(table, Mapping) and bool(table.get("history")) for table in tables),
        has_slots=isinstance(features, Mapping) and bool(features.get("position")),
    )  # fmt: skip


def dataset_names(blocks: Mapping[str, Any]) -> list[str]:
    """Return the names of all datasets, without validating their blocks.

    Args:
        blocks: configuration under ``datasets``.
    """
    declared = [key for key, block in blocks.items() if isinstance(block, Mapping) and block.get("source")]
    return list(dict.fromkeys([*map(str, declared), *BUILT_IN]))


def _models(dataset: str, keys: Any) -> tuple[str, ...]:
    """Validate the models that a dataset's block lists, and return them in the order of the tables."""
    where, keys = f"datasets.{dataset}.models", as_list(keys)
    if not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys):
        raise InputError(f"{where}: found {keys!r}; name models as a list, e.g. [popularity, lr, base, din]")
    if unknown := [key for key in keys if key not in MODELS]:
        raise InputError(
            f"{where}: {', '.join(unknown)} is unknown; the models are {', '.join(MODELS)}{did_you_mean(unknown[0], MODELS)}"
        )
    if "base" not in keys:
        raise InputError(f"{where}: base is missing; RelaImpr and the differences refer to it")
    return tuple(key for key in MODELS if key in keys)


@dataclass(frozen=True)
class Table:
    """A table that compares models on one dataset.

    Attributes:
        title: title of the table.
        models: keys of its models, in order.
        base: model that RelaImpr refers to.
        second: another model that all are compared with; the best baseline if None.
        curves: whether learning curves are plotted.
    """

    title: str
    models: tuple[str, ...]
    base: str = "base"
    second: str | None = None
    curves: bool = False


ALL_MODELS = Table(
    "all models", tuple(key for key, spec in MODELS.items() if not spec.ablation and not spec.on_request)
)


def table_for(dataset: DatasetSpec) -> Table:
    """Return the table of a dataset: the models it lists, or else all that it can have.

    Models that need impressions are left out where the dataset has none.
    """
    if dataset.models is not None:
        return Table("chosen models", dataset.models)
    return replace(
        ALL_MODELS,
        models=tuple(key for key in ALL_MODELS.models if dataset.impressions or not MODELS[key].impressions),
    )


ABLATIONS: dict[str, Table] = {
    "din_table4": Table(
        "regularisers (DIN Table 4, Fig. 4)",
        ("reg_no_goods", "reg_none", "reg_dropout", "reg_filter", "reg_difacto", "reg_mba"),
        base="reg_no_goods",
        second="reg_none",
        curves=True,
    ),
    "din_table5": Table(
        "DIN, mini-batch aware regularisation and Dice (DIN Table 5)",
        ("lr", "base", "wide_deep", "pnn", "deepfm", "din", "din_mba", "din_dice", "din_mba_dice"),
    ),
    "outcomes": Table(
        "what happened in a behaviour",
        ("base", "din", "dien", "base_items", "din_items", "dien_items"),
        base="base_items",
        second="din_items",
    ),
    "rocket": Table(
        "Rocket Launching: light nets and their boosters",
        (
            "din",
            "dien",
            "din_light",
            "dien_light",
            "din_distilled",
            "dien_distilled",
            "din_light_alone",
            "dien_light_alone",
        ),
        base="din_light_alone",
        second="dien_light_alone",
    ),
    "dien_table3": Table(
        "industrial protocol (DIEN Table 3)",
        (
            "item_rate",
            "item_knn",
            "asvd",
            "boosted",
            "base",
            "wide_deep",
            "pnn",
            "din",
            "gru_attention",
            "gru_augru",
            "dien",
        ),
    ),
    "dien_table4": Table(
        "AUGRU and auxiliary loss (DIEN Table 4)",
        ("base", "gru_attention", "gru_aigru", "gru_agru", "gru_augru", "dien"),
        second="gru_augru",
    ),
}

RETRAINABLE = tuple(key for key, spec in MODELS.items() if not spec.ablation and not spec.closed_form)
"""Models that can be retrained: those that are trained in steps."""

TUNABLE = tuple(
    key for key, spec in MODELS.items() if not spec.closed_form
)  # models with hyperparameters to tune
TUNED_SUFFIX = "_tuned"  # suffix of the key of a model with tuned values
LEADERBOARD = "leaderboard"  # name of the table of a leaderboard
DELAYED_CLICKS = "delayed_clicks"  # name of the backtest of delayed clicks
WORTH = "worth"  # name of the curves of a model
LEADERBOARD_SUFFIX = f"_{LEADERBOARD}"  # suffix of the key of a model of a leaderboard


def without_variant(key: str) -> str:
    """Return the key of a model without the suffix of a variant."""
    return key.removesuffix(TUNED_SUFFIX).removesuffix(LEADERBOARD_SUFFIX)


def model_spec(key: str) -> ModelSpec:
    """Return the model of a key, which may have the suffix of a variant."""
    spec = MODELS[without_variant(key)]
    if not key.endswith(TUNED_SUFFIX):
        return spec
    return replace(spec, name=f"{spec.name}, tuned", baseline=False)


def pipeline_name(dataset: str, key: str) -> str:
    """Return the name of the pipeline that trains a model, or that makes an ablation table, of a dataset."""
    if key in ABLATIONS:
        return f"{key}.{dataset}"
    if key.endswith(LEADERBOARD_SUFFIX):
        return f"leaderboard.{dataset}"
    if key.endswith(TUNED_SUFFIX):
        return f"tuned.{dataset}.{key.removesuffix(TUNED_SUFFIX)}"
    return f"{dataset}.{key}"


def table_of_tuned(model: str) -> Table:
    """Return the table that compares a tuned model with the untuned one."""
    return Table(f"{MODELS[model].name}, tuned and not", (model, f"{model}{TUNED_SUFFIX}"), base=model)


__all__ = [
    "ABLATIONS",
    "ALL_MODELS",
    "BUILT_IN",
    "DELAYED_CLICKS",
    "LEADERBOARD",
    "LEADERBOARD_SUFFIX",
    "MODELS",
    "RETRAINABLE",
    "TUNABLE",
    "TUNED_SUFFIX",
    "WORTH",
    "DatasetSpec",
    "Source",
    "Table",
    "dataset_names",
    "datasets_of",
    "model_spec",
    "pipeline_name",
    "table_for",
    "table_of_tuned",
    "without_variant",
]
