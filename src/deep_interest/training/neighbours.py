"""The neighbourhood of the history as a feature of the sample: what Item kNN expects of the candidate, a number for every model.

A model learns from the training samples how far to trust the score, so the score of a training sample must not know the sample's label:
it comes from neighbourhoods of other users (cross-fitting).
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.feature_columns import NEIGHBOURS
from deep_interest.logs.schema import Field
from deep_interest.logs.standardised import ROWS, Standardisation
from deep_interest.models.registry import build_model, model_config
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict

FOLDS = 5
_SMALLEST = 1e-6  # probability
_USERS_PER_BLOCK = 10  # Item kNN fits its coefficients on every tenth user: each fold has some of them


def with_neighbours(
    log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, *, max_len: int
) -> tuple[FeatureTables, pd.DataFrame]:
    """Add the context feature ``neighbours``, standardised by the training samples, to the schema and to the samples.

    Args:
        log: behaviours of all users.
        features: schema and feature codes.
        samples: canonical table of samples.
        max_len: number of newest behaviours that the neighbourhood sees.
    """
    scores = neighbour_scores(log, features, samples, max_len=max_len)
    column = pd.Series(scores)
    codes = Standardisation.fit(column, (samples["split"] == "train").to_numpy()).encode(column)
    field = Field(name=NEIGHBOURS, size=ROWS, dense=True)
    schema = features.schema.model_copy(update={"context": (*features.schema.context, field)})
    return replace(features, schema=schema), samples.assign(**{NEIGHBOURS: codes})


def folds_of(user: np.ndarray) -> np.ndarray:
    """Return the fold of each user code, ``(n,)`` in 0 … `FOLDS` - 1."""
    return user // _USERS_PER_BLOCK % FOLDS


def neighbour_scores(
    log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, *, max_len: int
) -> np.ndarray:
    """Return the logit of Item kNN for each sample, ``(n,)`` float32.

    A training sample is scored by a neighbourhood that is fitted without the samples of a fifth of the users, among them its own user,
    and samples of validation and test by one that is fitted to all training samples.
    """
    store = FeatureStore.build(log, features, torch.device("cpu"))
    split, user = samples["split"].to_numpy(), samples["user"].to_numpy()
    fold = np.where(split == "train", folds_of(user), FOLDS)
    probabilities = np.empty(len(samples), np.float32)
    for held_out in range(FOLDS + 1):
        chosen = fold == held_out
        if not chosen.any():
            continue
        parts = samples.assign(split=np.where(chosen, "held out", np.where(split == "train", "train", "")))
        train, others = (
            SampleSet.build(store, parts, name, max_len=max_len) for name in ("train", "held out")
        )
        if not len(train):
            probabilities[chosen] = 0.5  # all training users are in one fold
            continue
        model = build_model("item_knn", model_config("item_knn", {}), features.schema)
        model.fit(train)
        probabilities[chosen] = predict(model, others, batch_size=4096)
    bounded = probabilities.clip(_SMALLEST, 1 - _SMALLEST)
    return np.log(bounded) - np.log1p(-bounded)
