"""The papers' plots of one dataset's trained models."""

from typing import Any

import numpy as np
import torch

from deep_interest.analysis.attribution import (
    BehaviorAttention,
    behavior_attention,
    interest_states,
    predict_ctr,
    single_sample_batch,
)
from deep_interest.analysis.structure import cluster_silhouette
from deep_interest.figures.analysis import activation_chart, attention_chart, embedding_chart, evolution_chart
from deep_interest.figures.chart import Chart
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.models.batch import Batch
from deep_interest.models.layers import Dice, PReLU
from deep_interest.reporting.dataset_view import DatasetView
from deep_interest.reporting.item_embeddings import item_codes, item_vectors, items_of_largest_categories
from deep_interest.serving.scorer import Scorer
from deep_interest.training.runs import Checkpoint, restore


def draw_activation(prelu: Checkpoint, dice: Checkpoint) -> Chart:
    """Draw PReLU and Dice as learned by the first hidden layers of two models (DIN Fig. 3).

    Args:
        prelu: checkpoint of a model with PReLU; ReLU is drawn as PReLU with slope 0.
        dice: checkpoint of a model with Dice.
    """
    dice_layer = next(layer for layer in first_seed_model(dice).mlp.layers if isinstance(layer, Dice))
    prelu_layers = (layer for layer in first_seed_model(prelu).mlp.layers if isinstance(layer, PReLU))
    prelu_alphas = next((layer.weight for layer in prelu_layers), torch.zeros(1))
    mean, variance = dice_layer.standardize.running_mean, dice_layer.standardize.running_var
    assert mean is not None and variance is not None
    tensors = (mean, variance.sqrt(), dice_layer.alpha, prelu_alphas)
    return activation_chart(*(tensor.detach().numpy() for tensor in tensors))


def draw_attention(checkpoint: Checkpoint, view: DatasetView) -> Chart:
    """Draw the attention weights of one user's behaviours for several candidates (DIN Fig. 5)."""
    model, batch = first_seed_model(checkpoint), _typical_user_batch(view)
    attention = behavior_attention(model, batch)
    candidates = _candidate_names(view, batch)
    return attention_chart(
        _weights_by_sample(attention), _behavior_names(view, attention), candidates, predict_ctr(model, batch).tolist(),
        title=f"Attention to one user's behaviours for {len(candidates)} candidates (DIN Fig. 5)",
    )  # fmt: skip


def draw_evolution(checkpoint: Checkpoint, view: DatasetView) -> Chart:
    """Draw states and attention of one user's history for several targets (DIEN Fig. 3)."""
    from sklearn.decomposition import PCA  # noqa: PLC0415

    model, batch = first_seed_model(checkpoint), _typical_user_batch(view)
    attention, states = interest_states(model, batch)
    initial = np.zeros((1, states.shape[1]), states.dtype)
    components = PCA(2).fit(np.vstack([states, initial]))
    paths = [
        np.vstack([components.transform(initial), components.transform(states[attention.sample == sample])])
        for sample in np.unique(attention.sample)
    ]
    return evolution_chart(
        paths, _weights_by_sample(attention), _behavior_names(view, attention), _candidate_names(view, batch),
        components.explained_variance_ratio_.tolist(),
    )  # fmt: skip


def draw_embedding(checkpoint: Checkpoint, view: DatasetView) -> Chart:
    """Draw a t-SNE of the items of the largest categories, coloured by one user's predicted CTR (DIN Fig. 6)."""
    from sklearn.manifold import TSNE  # noqa: PLC0415

    model = first_seed_model(checkpoint)
    items, categories = items_of_largest_categories(view)
    vectors = item_vectors(model, view, items)
    row = view.typical_user()[:1]
    user, segment, history_end = (
        int(codes[row]) for codes in (view.test.user, view.test.segment, view.test.history_end)
    )
    batch = single_sample_batch(view.test, user, history_end, 1, segment=segment)
    ctr = _score_items(model, view, batch, items)
    perplexity = max(2, min(30, len(items) // 4))
    points = TSNE(2, perplexity=perplexity, init="pca", random_state=0, metric="cosine").fit_transform(
        vectors
    )
    category_codes = np.unique(categories, return_inverse=True)[1]
    silhouettes = {
        "item and category": cluster_silhouette(vectors, category_codes),
        "item only": cluster_silhouette(vectors[:, : model.embedding_dim], category_codes),
    }
    return embedding_chart(
        points, list(categories), ctr, [view.item_name(item) for item in items], silhouettes=silhouettes
    )


def first_seed_model(checkpoint: Checkpoint) -> Any:
    """Return the model of a checkpoint's first seed, in evaluation mode."""
    return restore(checkpoint, checkpoint["seeds"][0]).eval()


def _typical_user_batch(view: DatasetView) -> Batch:
    """Return the typical user's test samples, one for each candidate."""
    rows = view.typical_user()
    _, first = np.unique(view.test.item[rows].numpy(), return_index=True)
    return view.test.batch(torch.from_numpy(rows[np.sort(first)]))


def _candidate_names(view: DatasetView, batch: Batch) -> list[str]:
    return [view.item_name(item) for item in view.items_of(batch.candidate[ITEM_ID].numpy())]


def _behavior_names(view: DatasetView, attention: BehaviorAttention) -> list[str]:
    first = attention.sample == attention.sample[0]
    return [view.item_name(item) for item in view.items_of(attention.behavior[ITEM_ID][first])]


def _weights_by_sample(attention: BehaviorAttention) -> list[list[float]]:
    return [attention.weight[attention.sample == sample].tolist() for sample in np.unique(attention.sample)]


def _score_items(model: Any, view: DatasetView, batch: Batch, items: np.ndarray) -> np.ndarray:
    scorer = Scorer(model, value_sets=batch.value_sets)
    codes = item_codes(model, view, items)
    return scorer(batch.history, codes, profile=batch.profile, context=batch.context).numpy()
