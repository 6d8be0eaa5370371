"""Compare what an id without training samples looks up: its random row, a mean of the trained rows, or a row trained by id dropout.

    kedro run --pipelines=samples.movielens_100k
    python benchmarks/unknown_ids.py movielens_100k      # any dataset whose samples are made

Prints log loss, GAUC and calibration on all validation rows, and on those with an unknown value, averaged over the seeds.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from torch import Tensor

from deep_interest.evaluation.metrics import gauc, logloss
from deep_interest.models.batch import Batch
from deep_interest.models.embeddings import Table, embedding_tables
from deep_interest.models.registry import build_model, model_config
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict
from deep_interest.training.loop import Fit
from deep_interest.training.occurrences import occurrences_of
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import occurrence_key
from deep_interest.training.runs import Data
from deep_interest.training.unknown import UnknownRows

COMMON = {"embedding_dim": 16, "embedding_std": 0.1, "pooling": "mean"}
OPTIONS = TrainingOptions(learning_rate=0.005, decay_rate=0.7, batch_size=512, epochs=3, patience=1)
RARE = 10  # training samples of an id that the id dropout of rare ids may replace
DROPOUTS = {"dropout 0.01 of rare ids": (0.01, RARE), "dropout 0.05 of rare ids": (0.05, RARE), "dropout 0.05 of all ids": (0.05, 1 << 62)}  # fmt: skip


class WeightedMean(UnknownRows):
    """The mean with each row counted as often as it occurs."""

    def __init__(self, tables: list[Table], occurrences: dict[str, Tensor]) -> None:
        self.rows = [(table, occurrences[occurrence_key(table)]) for table in tables if table.groups]

    @torch.no_grad()
    def fill(self) -> None:
        for table, counts in self.rows:
            table.weight[counts == 0] = counts.to(table.weight) @ table.weight / counts.sum()


class Dropped:
    """Samples whose batches replace each id with at most ``most`` samples by the unknown, with a probability."""

    def __init__(self, samples: SampleSet, counts: dict[str, Tensor], probability: float, most: int) -> None:
        self._samples, self._counts, self._probability, self._most = samples, counts, probability, most

    def __len__(self) -> int:
        return len(self._samples)

    def __getattr__(self, name: str) -> object:
        return getattr(self._samples, name)

    def batch(self, rows: Tensor, negatives: tuple[str, ...] = ()) -> Batch:
        batch = self._samples.batch(rows, negatives=negatives)
        groups = {name: getattr(batch, name) for name in ("candidate", "history", "profile", "context")}
        return replace(batch, **{name: self._dropped(codes) for name, codes in groups.items()})

    def _dropped(self, group: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: codes * ~((torch.rand(len(codes)) < self._probability) & (self._counts[name][codes.long()] <= self._most))
            for name, codes in group.items()
        }  # fmt: skip


def of_catalog(dataset: str) -> Data:
    """A dataset's samples from the project's catalogue."""
    project = Path(__file__).parents[1]
    bootstrap_project(project)
    with KedroSession.create(project, save_on_close=False) as session:
        catalog = session.load_context().catalog
        return Data(*(catalog.load(f"{dataset}.{name}") for name in ("log", "features", "samples")))


def with_unknown(samples: SampleSet) -> np.ndarray:
    """``(n,)`` whether a one-hot field of the candidate or the context is unknown."""
    codes = {**samples.candidates(), **samples.context}
    return np.any(
        [values.numpy() == 0 for name, values in codes.items() if name not in samples.store.value_sets],
        axis=0,
    )


def compare(data: Data, models: list[str], seeds: list[int]) -> pd.DataFrame:
    """Figures of the validation rows by model and way."""
    store = FeatureStore.build(data.log, data.features, torch.device("cpu"))
    train, validation = (
        SampleSet.build(store, data.samples, split, max_len=OPTIONS.max_len)
        for split in ("train", "validation")
    )
    rows = [
        {"model": key, "way": way, **_figures(key, seed, way, train, validation)}
        for key in models
        for seed in seeds
        for way in ("untrained", "mean", "weighted mean", *DROPOUTS)
    ]
    return pd.DataFrame(rows).groupby(["model", "way"], sort=False).mean().round(4)


def _figures(key: str, seed: int, way: str, train: SampleSet, validation: SampleSet) -> dict[str, float]:
    torch.manual_seed(seed)
    model = build_model(key, model_config(key, {}, common=COMMON), train.store.schema)
    tables = embedding_tables(model)
    counted = occurrences_of(tables, train)
    unknown = {"mean": UnknownRows, "weighted mean": WeightedMean}.get(way)
    samples: SampleSet | Dropped = train
    if way in DROPOUTS:
        counts = {table.field: counted[occurrence_key(table)] for table in tables if table.groups}
        samples = Dropped(train, counts, *DROPOUTS[way])
    with tempfile.TemporaryDirectory() as folder:
        Fit(
            label=f"{key}, {way}, seed {seed}", model=model, train=samples, validation=validation, options=OPTIONS, seed=seed,
            state_file=Path(folder) / "fit.pt", fingerprint="", unknown=unknown(tables, counted) if unknown else None,
        ).run()  # fmt: skip
    scores, labels = predict(model, validation, batch_size=4096), validation.labels.numpy()
    chosen = with_unknown(validation)
    return {
        "log_loss": logloss(labels, scores), "gauc": gauc(validation.user.numpy(), labels, scores).value,
        "calibration": scores.mean() / labels.mean(), "unknown_rows": chosen.mean(),
        "unknown_log_loss": logloss(labels[chosen], scores[chosen]) if chosen.any() else np.nan,
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", help="a dataset's key")
    parser.add_argument("--models", nargs="+", default=["base", "din"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print(compare(of_catalog(chosen.dataset), chosen.models, chosen.seeds).to_string())
