"""Pipelines of the project by name.

Kedro asks for the names before it loads parameters, so the datasets are read from the configuration files here.
"""

import atexit
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from kedro.pipeline import Pipeline

from deep_interest.config import blocks_under
from deep_interest.distributed.environment import is_worker
from deep_interest.errors import InputError
from deep_interest.experiments import (
    ABLATIONS,
    DELAYED_CLICKS,
    LEADERBOARD,
    MODELS,
    RETRAINABLE,
    TUNABLE,
    TUNED_SUFFIX,
    WORTH,
    DatasetSpec,
    abtest_names,
    dataset_names,
    datasets_of,
    evaluation_names,
    table_for,
    table_of_tuned,
)
from deep_interest.pipelines import (
    abtest,
    backtest,
    delayed_clicks,
    ingest,
    leaderboard,
    ope,
    parity,
    report,
    retrain,
    samples,
    score,
    simulate,
    train,
    tune,
    worth,
)
from deep_interest.pipelines.ranks import of_worker

DATASETS_VARIABLE = "DEEP_INTEREST_DATASETS"  # comma-separated dataset names
PIPELINES_VARIABLE = "DEEP_INTEREST_PIPELINES"  # comma-separated names of further pipelines to list
EXAMPLE_MODEL = "din"  # whose pipelines are listed for every dataset

Factories = dict[str, Callable[[], Pipeline]]

_session_blocks: dict[str, Any] | None = None


def use_session_blocks(blocks: Mapping[str, Any]) -> None:
    """Use a session's datasets and tests, which include its environment and ``--params``, instead of those of the files.

    Args:
        blocks: all parameters; those under ``datasets``, ``abtests`` and ``ope`` name pipelines.
    """
    global _session_blocks  # noqa: PLW0603  # Kedro calls register_pipelines without arguments
    _session_blocks = dict(blocks)


class LazyPipelines(Mapping[str, Pipeline]):
    """Read-only mapping that builds each pipeline on first access, and knows more pipelines than it lists.

    Kedro-Viz and ``kedro registry list`` load every pipeline that iteration yields. Access and membership accept all
    names, so that ``kedro run --pipelines=NAME`` runs pipelines that are not listed too.

    Args:
        factories: functions that build the pipelines, by name.
        listed: names that iteration yields; all if None.
    """

    def __init__(
        self, factories: Mapping[str, Callable[[], Pipeline]], listed: Iterable[str] | None = None
    ) -> None:
        self._factories = dict(factories)
        self._listed = tuple(self._factories if listed is None else listed)
        self._pipelines: dict[str, Pipeline] = {}

    def __getitem__(self, name: str) -> Pipeline:
        if name not in self._pipelines:
            with warnings.catch_warnings():
                # Names of entries begin with the dataset, namespaces with the stage.
                warnings.filterwarnings("ignore", "One or more dataset names contain", UserWarning)
                pipeline = self._factories[name]()
            self._pipelines[name] = of_worker(pipeline) if is_worker() else pipeline
        return self._pipelines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def __contains__(self, name: object) -> bool:
        return name in self._factories  # the inherited method would build the pipeline

    def all_names(self) -> Iterator[str]:
        """Yield the names of all pipelines, also of those that are not listed."""
        yield from self._factories

    def clear(self) -> None:
        """Drop all pipelines."""
        self._factories.clear()
        self._pipelines.clear()
        self._listed = ()


def register_pipelines() -> LazyPipelines:
    """Return the pipelines that ``kedro run --pipelines=NAME`` can run.

    ============================== ================================================================================
    ``<dataset>``                  from raw files to the results table of all models
    ``<dataset>.<model>``          from raw files to the results of one model
    ``ingest.<dataset>``           from raw files to canonical tables
    ``samples.<dataset>``          from raw files to samples
    ``report.<dataset>``           results table and report of trained models
    ``<ablation>.<dataset>``       from raw files to an ablation table of the papers: ``din_table4``, ``din_table5`` or
                                   ``dien_table4``
    ``tune.<dataset>.<model>``     from raw files to the best values of a model's options
    ``tuned.<dataset>.<model>``    comparison of the tuned model with the untuned one
    ``leaderboard.<dataset>``      from raw files to the comparison of all models, each tuned with the same budget
    ``worth.<dataset>.<model>``    GAUC of a model against data, history length and width; ``worth.<dataset>`` is that of DIN
    ``retrain.<dataset>.<model>``  from new days to a model version; only for datasets split by day
    ``score.<dataset>.<model>``    scores of users and candidates; only for datasets split by day
    ``parity.<dataset>.<model>``   scores of the service compared with batch scoring
    ``delayed_clicks.<dataset>``   cost of clicks that have not arrived; only for datasets split by day
    ``simulate``                   simulated log
    ``simulate_days``              simulated log in daily deliveries
    ``backtest``                   comparison of retraining strategies on the simulated days
    ``abtest.<test>``              read-out of an A/B test from its log, or of a test in the simulated shop
    ``ope.<evaluation>``           what another version would have earned, from the log of one version
    ``__default__``                ``simulated``
    ``retrain``, ``score``         those of DIN on the first dataset with impressions
    ============================== ================================================================================

    Pipelines of single models are listed for DIN only, and ablations are not listed; all of them can be run. The
    environment variable ``DEEP_INTEREST_PIPELINES`` names further pipelines to list, for Kedro-Viz.

    If the environment variable ``DEEP_INTEREST_DATASETS`` lists datasets, only their pipelines are registered, and the
    first dataset is the default.

    Raises:
        InputError: ``DEEP_INTEREST_DATASETS``, ``DEEP_INTEREST_PIPELINES`` or the configuration has an invalid name.
    """
    datasets = _selected_datasets()
    default = next(iter(datasets))
    with_impressions = next((dataset for dataset, spec in datasets.items() if spec.retrainable), None)
    pipelines: LazyPipelines
    factories: Factories = {"__default__": lambda: pipelines[default]}
    if "simulated" in datasets:
        factories |= {
            "simulate": lambda: Pipeline([simulate.create_pipeline()]),
            "simulate_days": lambda: Pipeline([simulate.create_days_pipeline()]),
            "backtest": lambda: Pipeline([simulate.create_days_pipeline(), backtest.create_pipeline()]),
        }
    for kind in ("retrain", "score") if with_impressions else ():
        factories[kind] = partial(lambda name: pipelines[name], f"{kind}.{with_impressions}.{EXAMPLE_MODEL}")
    blocks = _blocks("abtests")
    tests = {
        f"abtest.{name}": partial(_abtest_pipeline, name, is_simulated=bool(blocks[name].get("simulation")))
        for name in abtest_names(blocks)
    }
    tests |= {f"ope.{name}": partial(_ope_pipeline, name) for name in evaluation_names(_blocks("ope"))}
    factories |= tests
    listed = [name for name in factories if name not in tests or not selected_names()]
    for dataset, spec in datasets.items():
        factories |= _dataset_factories(dataset, spec)
        listed += _listed_names(dataset, spec)
    pipelines = LazyPipelines(factories, dict.fromkeys([*listed, *_selected_pipelines(factories)]))
    atexit.register(
        pipelines.clear
    )  # otherwise DuckDB objects that pipelines hold are reported as a leak at exit
    return pipelines


def _abtest_pipeline(test: str, *, is_simulated: bool) -> Pipeline:
    return abtest.create_pipeline(test, is_simulated=is_simulated)


def _ope_pipeline(evaluation: str) -> Pipeline:
    return ope.create_pipeline(evaluation)


def _listed_names(dataset: str, spec: DatasetSpec) -> list[str]:
    """Return the names of the pipelines of a dataset that are listed."""
    kinds = ("tune", "tuned", *(("retrain", "score") if spec.retrainable else ()))
    return [
        dataset,
        *(f"{stage}.{dataset}" for stage in ("ingest", "samples", "report")),
        f"{dataset}.{EXAMPLE_MODEL}",
        *(f"{kind}.{dataset}.{EXAMPLE_MODEL}" for kind in kinds),
    ]


def _selected_pipelines(names: Iterable[str]) -> list[str]:
    """Return the pipelines that the environment variable ``DEEP_INTEREST_PIPELINES`` lists."""
    selected = [name.strip() for name in os.environ.get(PIPELINES_VARIABLE, "").split(",") if name.strip()]
    if unknown := [name for name in selected if name not in names]:
        raise InputError(
            f"{PIPELINES_VARIABLE}: {', '.join(unknown)} is unknown; name pipelines like simulated.dien or "
            "dien_table4.simulated, separated by commas"
        )
    return selected


def _dataset_factories(dataset: str, spec: DatasetSpec) -> Factories:
    """Return the functions that build the pipelines of a dataset, by name."""

    @cache
    def ingest_pipeline() -> Pipeline:
        raw = simulate.create_pipeline(dataset) if spec.simulated else Pipeline([])
        return raw + ingest.create_pipeline(dataset, spec)

    @cache
    def samples_pipeline() -> Pipeline:
        return ingest_pipeline() + samples.create_pipeline(dataset, spec)

    @cache
    def train_pipeline(model: str) -> Pipeline:
        return train.create_pipeline(dataset, model)

    @cache
    def report_pipeline() -> Pipeline:
        table = table_for(spec)
        plots = report.create_plots_pipeline(dataset, table, by_day=spec.by_day, has_slots=spec.has_slots)
        return report.create_pipeline(dataset, table) + plots

    def dataset_pipeline() -> Pipeline:
        models = map(train_pipeline, table_for(spec).models)
        return Pipeline([samples_pipeline(), *models, report_pipeline()])

    def model_pipeline(model: str) -> Pipeline:
        results = report.create_model_pipeline(dataset, model)
        return Pipeline([samples_pipeline(), train_pipeline(model), results])

    def ablation_pipeline(name: str) -> Pipeline:
        table = ABLATIONS[name]
        models = map(train_pipeline, table.models)
        return Pipeline([samples_pipeline(), *models, report.create_pipeline(dataset, table, name=name)])

    def tune_pipeline(model: str) -> Pipeline:
        return Pipeline([samples_pipeline(), tune.create_pipeline(dataset, model)])

    def tuned_pipeline(model: str) -> Pipeline:
        tuned = train.create_pipeline(dataset, model, variant=TUNED_SUFFIX)
        results = report.create_pipeline(dataset, table_of_tuned(model), name=f"{model}{TUNED_SUFFIX}")
        return Pipeline([samples_pipeline(), train_pipeline(model), tuned, results])

    def leaderboard_pipeline() -> Pipeline:
        return Pipeline([samples_pipeline(), leaderboard.create_pipeline(dataset, table_for(spec))])

    def worth_pipeline(model: str) -> Pipeline:
        return Pipeline([samples_pipeline(), worth.create_pipeline(dataset, model)])

    def retrain_pipeline(model: str) -> Pipeline:
        return retrain.create_pipeline(dataset, model)

    def score_pipeline(model: str) -> Pipeline:
        return score.create_pipeline(dataset, model)

    def parity_pipeline(model: str) -> Pipeline:
        return parity.create_pipeline(dataset, model)

    def delayed_clicks_pipeline() -> Pipeline:
        return delayed_clicks.create_pipeline(dataset)

    retrainable = RETRAINABLE if spec.retrainable else ()
    return {
        **({f"{DELAYED_CLICKS}.{dataset}": delayed_clicks_pipeline} if spec.retrainable else {}),
        dataset: dataset_pipeline,
        f"ingest.{dataset}": ingest_pipeline,
        f"samples.{dataset}": samples_pipeline,
        f"report.{dataset}": report_pipeline,
        f"{LEADERBOARD}.{dataset}": leaderboard_pipeline,
        f"{WORTH}.{dataset}": partial(worth_pipeline, EXAMPLE_MODEL),
        **{f"{name}.{dataset}": partial(ablation_pipeline, name) for name in ABLATIONS},
        **{f"{dataset}.{model}": partial(model_pipeline, model) for model in MODELS},
        **{f"retrain.{dataset}.{model}": partial(retrain_pipeline, model) for model in retrainable},
        **{f"score.{dataset}.{model}": partial(score_pipeline, model) for model in retrainable},
        **{f"parity.{dataset}.{model}": partial(parity_pipeline, model) for model in retrainable},
        **{f"tune.{dataset}.{model}": partial(tune_pipeline, model) for model in TUNABLE},
        **{f"tuned.{dataset}.{model}": partial(tuned_pipeline, model) for model in TUNABLE},
        **{f"{WORTH}.{dataset}.{model}": partial(worth_pipeline, model) for model in TUNABLE},
    }


def selected_names() -> list[str]:
    """Return the dataset names that the environment variable ``DEEP_INTEREST_DATASETS`` lists; empty for all datasets."""
    return [name.strip() for name in os.environ.get(DATASETS_VARIABLE, "").split(",") if name.strip()]


def _blocks(key: str) -> dict[str, Any]:
    """Return the blocks of the session, or of the files."""
    if _session_blocks is None:
        return blocks_under(key)
    return dict(_session_blocks.get(key) or {})


def _selected_datasets() -> dict[str, DatasetSpec]:
    """Return all datasets, or those that the environment variable lists; the blocks of the others are not validated."""
    blocks, names = _blocks("datasets"), selected_names()
    if not names:
        return datasets_of(blocks)
    datasets = datasets_of({name: blocks[name] for name in names if name in blocks})
    if unknown := [name for name in names if name not in datasets]:
        raise InputError(
            f"{DATASETS_VARIABLE}: {', '.join(unknown)} is unknown; the datasets are {', '.join(dataset_names(blocks))}"
        )
    return {name: datasets[name] for name in names}
