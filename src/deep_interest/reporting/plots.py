"""The papers' pictures of one dataset's trained rows."""

from typing import Any

import numpy as np
import pandas as pd
import torch

from deep_interest.analysis.attribution import (
    BehaviorAttention,
    behavior_attention,
    interest_states,
    predict_ctr,
    single_sample_batch,
)
from deep_interest.analysis.structure import attention_on_related, cluster_silhouette, state_movement
from deep_interest.evaluation.metrics import per_user_auc
from deep_interest.figures.analysis import activation_chart, attention_chart, embedding_chart, evolution_chart
from deep_interest.figures.chart import Chart
from deep_interest.logs.encoding import GOODS
from deep_interest.models.layers import Dice, PReLU
from deep_interest.reporting.dataset_view import DatasetView
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.relevance import is_related
from deep_interest.simulation.world import make_world
from deep_interest.training.runs import Checkpoint, restore, untrained

MOST_SAMPLES = 2000  # that structure is measured on
CATEGORIES, GOODS_SHOWN = 8, 600


def draw_activation(prelu: Checkpoint, dice: Checkpoint) -> Chart:
    """PReLU against Dice (DIN Fig. 3), from the first hidden layer of two rows' MLPs."""
    plain, adaptive = _model(prelu).mlp.layers, _model(dice).mlp.layers
    learnt = next(layer for layer in adaptive if isinstance(layer, Dice))
    slopes = next((layer.weight for layer in plain if isinstance(layer, PReLU)), torch.zeros(1))  # none: ReLU
    statistics = learnt.standardize
    return activation_chart(
        *(
            tensor.detach().numpy()
            for tensor in (statistics.running_mean, statistics.running_var.sqrt(), learnt.alpha, slopes)
        )
    )


def draw_attention(checkpoint: Checkpoint, view: DatasetView) -> Chart:
    """Weights over one user's behaviours for several candidates (DIN Fig. 5)."""
    model = _model(checkpoint)
    batch = _candidates(view)
    pairs = behavior_attention(model, batch)
    names = [view.item_name(item) for item in view.items_of(batch.candidate[GOODS].numpy())]
    return attention_chart(
        _rows(pairs), _behaviors(view, pairs), names, predict_ctr(model, batch).tolist(),
        title=f"What one user's behaviours count for {len(names)} candidates (DIN Fig. 5)",
    )  # fmt: skip


def draw_evolution(checkpoint: Checkpoint, view: DatasetView) -> Chart:
    """Path and attention of one history for several targets (DIEN Fig. 3)."""
    from sklearn.decomposition import PCA  # noqa: PLC0415

    model, batch = _model(checkpoint), _candidates(view)
    pairs, states = interest_states(model, batch)
    components = PCA(2).fit(np.vstack([states, np.zeros((1, states.shape[1]), states.dtype)]))
    start = components.transform(np.zeros((1, states.shape[1])))
    paths = [
        np.vstack([start, components.transform(states[pairs.sample == sample])])
        for sample in np.unique(pairs.sample)
    ]
    names = [view.item_name(item) for item in view.items_of(batch.candidate[GOODS].numpy())]
    return evolution_chart(
        paths, _rows(pairs), _behaviors(view, pairs), names, components.explained_variance_ratio_.tolist()
    )


def draw_embedding(checkpoint: Checkpoint, view: DatasetView) -> Chart:
    """t-SNE of the goods of the largest categories (DIN Fig. 6), coloured by one user's predicted CTR."""
    from sklearn.manifold import TSNE  # noqa: PLC0415

    model = _model(checkpoint)
    items, category = _goods_to_show(view)
    whole = _item_vectors(model, view, items)
    row = view.typical_user()[:1]
    sample = view.test
    user, end = int(sample.user[row]), int(sample.history_end[row])
    batch = single_sample_batch(sample, user, end, 1)
    ctr = _score_items(model, view, batch, items)
    perplexity = max(2, min(30, len(items) // 4))
    points = TSNE(2, perplexity=perplexity, init="pca", random_state=0, metric="cosine").fit_transform(whole)
    codes = np.unique(category, return_inverse=True)[1]
    goods_only = whole[:, : model.embedding_dim]
    silhouettes = {
        "goods and category": cluster_silhouette(whole, codes),
        "goods alone": cluster_silhouette(goods_only, codes),
    }
    return embedding_chart(
        points, list(category), ctr, [view.item_name(item) for item in items], silhouettes=silhouettes
    )


def measure_structure(
    rows: dict[str, Checkpoint], view: DatasetView, simulation: SimulationConfig
) -> pd.DataFrame:
    """What the simulator planted, found or not: ``measure``, ``model``, ``found``, ``by_chance``, ``samples``, a row each.

    Chance is, for silhouettes, the vectors before training: those that hold the category's own form clusters at once.

    Args:
        rows: checkpoints by key; attention of each that has it, movement of those with an evolving interest.
        view: the simulated dataset.
        simulation: of which its world is made.
    """
    world, found = make_world(simulation), []
    batch = view.test.batch(_long_histories(view))
    for key, checkpoint in rows.items():
        model = _model(checkpoint)
        pairs = behavior_attention(model, batch)
        planted = _related(view, pairs, world)
        attention = attention_on_related(pairs, planted)
        measures = [
            ("attention weight on related behaviours", attention["weight_share"], attention["count_share"]),
            ("a related behaviour outweighs another", attention["auc"], 0.5),
        ]
        if hasattr(model, "interest_evolution"):
            pairs, states = interest_states(model, batch)
            ratio = state_movement(pairs, states, planted)["ratio"]
            measures.append(("steps on related behaviours, in steps on others", ratio, 1.0))
        items, category = _goods_to_show(view)
        codes, width = np.unique(category, return_inverse=True)[1], model.embedding_dim
        vectors, before = (
            _item_vectors(each, view, items)
            for each in (model, untrained(checkpoint, checkpoint["seeds"][0]).eval())
        )
        for what, columns in (("goods and category", slice(None)), ("goods alone", slice(width))):
            found_before = (cluster_silhouette(each[:, columns], codes) for each in (vectors, before))
            measures.append((f"silhouette of categories, {what}", *found_before))
        found += [
            {
                "measure": measure,
                "model": key,
                "found": value,
                "by_chance": chance,
                "samples": attention["samples"],
            }
            for measure, value, chance in measures
        ]
    return pd.DataFrame(found)


def calibration(labels: np.ndarray, predictions: np.ndarray, *, bins: int = 10) -> pd.DataFrame:
    """Mean prediction and share of positives by tenth of the predictions; ``error`` is their mean distance, weighted by samples.

    Args:
        labels: ``(n,)``.
        predictions: ``(n,)``, or ``(seeds, n)``: each seed's are predictions of their own.
        bins: how many parts.
    """
    labels, predictions = np.broadcast_to(labels, predictions.shape).ravel(), predictions.ravel()
    part = np.argsort(np.argsort(predictions, kind="stable")) * bins // len(predictions)
    table = (
        pd.DataFrame({"part": part, "predicted": predictions, "observed": labels})
        .groupby("part")
        .agg(predicted=("predicted", "mean"), observed=("observed", "mean"), samples=("observed", "size"))
    )
    error = np.average((table["predicted"] - table["observed"]).abs(), weights=table["samples"])
    return table.reset_index(drop=True).assign(error=float(error))


def gauc_by_group(
    users: np.ndarray, labels: np.ndarray, predictions: dict[str, np.ndarray], sizes: np.ndarray
) -> pd.DataFrame:
    """GAUC by quarter of the samples: ``name``, ``group``, ``gauc``, ``samples``; a group without a user with both classes is left out.

    Args:
        users, labels: of the test samples.
        predictions: by the row's name, ``(n,)`` or ``(seeds, n)``: the mean over the seeds is shown.
        sizes: ``(n,)`` whole numbers, what the quarters are of.
    """
    edges = np.unique(np.quantile(sizes, [0, 0.25, 0.5, 0.75, 1]).astype(int))
    bounds = (
        list(zip(edges[:-1] + np.r_[0, np.ones(len(edges) - 2, int)], edges[1:], strict=True))
        if len(edges) > 1
        else [(edges[0], edges[0])]
    )
    rows = []
    for low, high in bounds:
        chosen = (sizes >= low) & (sizes <= high)
        for name, scores in predictions.items():
            of_seeds = [
                per_user_auc(users[chosen], labels[chosen], of_one[chosen])
                for of_one in np.atleast_2d(scores)
            ]
            if len(of_seeds[0].users):
                label = f"{low} to {high}" if low < high else str(low)
                rows.append(
                    {
                        "name": name,
                        "group": label,
                        "gauc": float(np.mean([per_user.gauc().value for per_user in of_seeds])),
                        "samples": int(chosen.sum()),
                    }
                )
    return pd.DataFrame(rows)


def _model(checkpoint: Checkpoint) -> Any:
    return restore(checkpoint, checkpoint["seeds"][0]).eval()


def _candidates(view: DatasetView):
    """The typical user's test samples with different candidates, each with its history."""
    rows = view.typical_user()
    _, first = np.unique(view.test.item[rows].numpy(), return_index=True)
    return view.test.batch(torch.from_numpy(rows[np.sort(first)]))


def _rows(pairs: BehaviorAttention) -> list[list[float]]:
    return [pairs.weight[pairs.sample == sample].tolist() for sample in np.unique(pairs.sample)]


def _behaviors(view: DatasetView, pairs: BehaviorAttention) -> list[str]:
    first = pairs.sample == pairs.sample[0]
    return [view.item_name(item) for item in view.items_of(pairs.fields[GOODS][first])]


def _long_histories(view: DatasetView) -> torch.Tensor:
    rows = np.flatnonzero(view.test.history_end.numpy() >= 2)
    return torch.from_numpy(rows[:: max(1, len(rows) // MOST_SAMPLES)][:MOST_SAMPLES])


def _related(view: DatasetView, pairs: BehaviorAttention, world: Any) -> np.ndarray:
    ids = np.concatenate([[0], view.item_ids["id"].to_numpy()])
    done, shown = (view.items_of(codes[GOODS]) for codes in (pairs.fields, pairs.candidate))
    known = (done > 0) & (shown > 0)
    found = np.zeros(len(done), bool)
    found[known] = is_related(world, ids[done[known]], ids[shown[known]])
    return found


def _goods_to_show(view: DatasetView) -> tuple[np.ndarray, np.ndarray]:
    """Item codes of the largest categories, most seen first, and the category of each."""
    seen = np.bincount(view.items_of(view.data.log.fields[GOODS]), minlength=len(view.category))
    seen[0] = 0
    by_category = (
        pd.Series(seen[1:]).groupby(view.category[1:]).sum().sort_values(ascending=False, kind="stable")
    )
    largest = by_category.index[:CATEGORIES]
    codes = np.flatnonzero(np.isin(view.category, largest) & (seen > 0))
    chosen = codes[np.argsort(-seen[codes], kind="stable")][:GOODS_SHOWN]
    return chosen, view.category[chosen]


def _item_vectors(model: Any, view: DatasetView, items: np.ndarray) -> np.ndarray:
    """The candidate's vectors of items: goods, category, … one after the other."""
    codes = {
        field.name: torch.from_numpy(view.data.features.items[field.name][items])
        for field in model.schema.item
    }
    with torch.inference_mode():
        return model.embeddings(codes, model.schema.item, view.test.store.cells).numpy()


def _score_items(model: Any, view: DatasetView, batch: Any, items: np.ndarray) -> np.ndarray:
    from deep_interest.serving.scorer import Scorer  # noqa: PLC0415

    codes = {
        field.name: torch.from_numpy(view.data.features.items[field.name][items])
        for field in model.schema.item
    }
    return Scorer(model, cells=batch.cells)(
        batch.history, codes, profile=batch.profile, context=batch.context
    ).numpy()
