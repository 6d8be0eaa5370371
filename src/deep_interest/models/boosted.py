"""Boosted: gradient boosted trees over rates, counts and matches with the history (no embeddings)."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.boosted_features import BoostedFeatures, count_labels, rate_sizes
from deep_interest.models.closed_form import FittedModel, TrainingSamples, batches
from deep_interest.models.configs.boosted import BoostedConfig
from deep_interest.models.estimator_state import estimator_from_bytes, estimator_to_bytes
from deep_interest.models.history_counts import Rates, categorical

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

FOLDS = 10  # by user; the first one stops the boosting


class Boosted(FittedModel):
    """Histogram gradient boosting on the columns of `BoostedFeatures`.

    Training samples are divided into folds by user, and the rates in the columns of a sample exclude its fold, so that a
    training sample sees neither its own label nor those of its user. The trees are grown on all folds but the first, whose
    loss decides when to stop. The result depends on the seed only if there are more than ``max_samples`` samples, or more than
    200,000, from which scikit-learn draws those that define the bins.
    """

    Config = BoostedConfig
    sized_by_fit = ("trees",)
    trees: Tensor

    def __init__(self, config: BoostedConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.config, self.schema = config, schema
        self.register_buffer("trees", torch.zeros(0, dtype=torch.uint8))
        for key, size in rate_sizes(schema).items():
            self.register_buffer(f"rate_{key}", torch.zeros(size))
        for field in categorical(schema.item):
            self.register_buffer(f"samples_{field.name}", torch.zeros(field.size, dtype=torch.int64))
        self._classifier: HistGradientBoostingClassifier | None = None
        self.register_load_state_dict_post_hook(_forget_classifier)

    def fit(self, samples: TrainingSamples) -> None:
        """Compute rates, then grow trees on the columns of the samples.

        Raises:
            InputError: all labels are equal.
        """
        labels = samples.labels.cpu().numpy()
        if labels.min() == labels.max():
            raise InputError(
                f"boosted: all {len(labels)} training labels are {labels[0]:g}; provide samples with both labels, or remove "
                "boosted from models"
            )
        folds = samples.user.cpu().numpy() % FOLDS
        features = self._count(samples, folds)
        rows = torch.randperm(len(samples))[: self.config.max_samples].sort().values
        seed = int(torch.randint(2**31, ()))
        columns = _matrix(samples, rows, features, folds)
        chosen = rows.numpy()
        self._classifier = self._grow(columns, labels[chosen], stopping=folds[chosen] == 0, seed=seed)
        self.trees = estimator_to_bytes(self._classifier).to(self.trees.device)

    def forward(self, batch: Batch) -> ModelOutput:
        rates = {key: self._host(f"rate_{key}")[None] for key in rate_sizes(self.schema)}
        columns = BoostedFeatures(self.schema, rates, self._sample_counts())(
            batch, np.zeros(batch.size, np.int64)
        )
        if self._classifier is None:
            self._classifier = estimator_from_bytes(self.trees)
        logits = self._classifier.decision_function(_stack(columns))
        return ModelOutput(torch.from_numpy(logits).to(batch.labels.device, torch.float32))

    def _count(self, samples: TrainingSamples, folds: np.ndarray) -> BoostedFeatures:
        """Compute the rates, keep those of all samples, and return the columns with those that exclude one fold each."""
        tables = {key: Rates(size, FOLDS) for key, size in rate_sizes(self.schema).items()}
        for rows, batch in batches(samples, torch.arange(len(samples))):
            count_labels(tables, batch, self.schema, folds[rows])
        rates = {key: table.without_each_fold() for key, table in tables.items()}
        for key, values in rates.items():
            getattr(self, f"rate_{key}").copy_(torch.from_numpy(values[-1]))
        for field in categorical(self.schema.item):
            counts = tables[f"item_{field.name}"].samples.sum(0)
            getattr(self, f"samples_{field.name}").copy_(torch.from_numpy(counts))
        return BoostedFeatures(self.schema, rates, self._sample_counts())

    def _grow(
        self, columns: np.ndarray, labels: np.ndarray, *, stopping: np.ndarray, seed: int
    ) -> "HistGradientBoostingClassifier":
        """Grow trees on the samples outside ``stopping (n,)``, or on all if the former or the latter have one label only."""
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415

        config = self.config
        stops = len(np.unique(labels[stopping])) == len(np.unique(labels[~stopping])) == 2
        classifier = HistGradientBoostingClassifier(
            max_iter=config.iterations, learning_rate=config.learning_rate, max_leaf_nodes=config.leaves,
            min_samples_leaf=config.min_leaf, early_stopping=stops, n_iter_no_change=20, random_state=seed,
        )  # fmt: skip
        if not stops:
            return classifier.fit(columns, labels)
        grown = ~stopping
        return classifier.fit(columns[grown], labels[grown], X_val=columns[stopping], y_val=labels[stopping])

    def _sample_counts(self) -> dict[str, np.ndarray]:
        return {field.name: self._host(f"samples_{field.name}") for field in categorical(self.schema.item)}

    def _host(self, name: str) -> np.ndarray:
        return getattr(self, name).cpu().numpy()


def _matrix(
    samples: TrainingSamples, rows: Tensor, features: BoostedFeatures, folds: np.ndarray
) -> np.ndarray:
    """Return the columns of the samples ``rows (n,)`` as one array ``(n, columns)`` float32."""
    matrix, start = np.empty((0, 0), np.float32), 0
    for chosen, batch in batches(samples, rows):
        part = _stack(features(batch, folds[chosen]))
        if not start:
            matrix = np.empty((len(rows), part.shape[1]), np.float32)
        matrix[start : start + len(part)] = part
        start += len(part)
    return matrix


def _stack(columns: dict[str, np.ndarray]) -> np.ndarray:
    return np.stack([values.astype(np.float32) for values in columns.values()], axis=1)


def _forget_classifier(module: nn.Module, incompatible: Any) -> None:
    """Decode the trees of a loaded state at the next prediction."""
    del incompatible
    assert isinstance(module, Boosted)
    module._classifier = None
