"""The papers' pictures of one dataset's trained rows."""

from typing import Any

import numpy as np
import pandas as pd
import torch

from deep_interest.evaluation.metrics import per_user_auc
from deep_interest.figures.chart import Chart
from deep_interest.figures.insight import activation_chart, attention_chart, embedding_chart, evolution_chart
from deep_interest.logs.encoding import GOODS
from deep_interest.models.layers import Dice, PReLU
from deep_interest.reporting.shop import Shop
from deep_interest.serving.insight import Pairs, attention_pairs, interest_path, one_sample, predicted
from deep_interest.serving.structure import attention_structure, cluster_structure, movement_structure
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


def draw_attention(checkpoint: Checkpoint, shop: Shop) -> Chart:
    """Weights over one user's behaviours for several candidates (DIN Fig. 5)."""
    model = _model(checkpoint)
    batch = _candidates(shop)
    pairs = attention_pairs(model, batch)
    names = [shop.item_name(item) for item in shop.items_of(batch.candidate[GOODS].numpy())]
    return attention_chart(
        _rows(pairs), _behaviors(shop, pairs), names, predicted(model, batch).tolist(),
        title=f"What one user's behaviours count for {len(names)} candidates (DIN Fig. 5)",
    )  # fmt: skip


def draw_evolution(checkpoint: Checkpoint, shop: Shop) -> Chart:
    """Path and attention of one history for several targets (DIEN Fig. 3)."""
    from sklearn.decomposition import PCA  # noqa: PLC0415

    model, batch = _model(checkpoint), _candidates(shop)
    pairs, states = interest_path(model, batch)
    components = PCA(2).fit(np.vstack([states, np.zeros((1, states.shape[1]), states.dtype)]))
    start = components.transform(np.zeros((1, states.shape[1])))
    paths = [
        np.vstack([start, components.transform(states[pairs.sample == sample])])
        for sample in np.unique(pairs.sample)
    ]
    names = [shop.item_name(item) for item in shop.items_of(batch.candidate[GOODS].numpy())]
    return evolution_chart(
        paths, _rows(pairs), _behaviors(shop, pairs), names, components.explained_variance_ratio_.tolist()
    )


def draw_embedding(checkpoint: Checkpoint, shop: Shop) -> Chart:
    """t-SNE of the goods of the largest categories (DIN Fig. 6), coloured by one user's predicted CTR."""
    from sklearn.manifold import TSNE  # noqa: PLC0415

    model = _model(checkpoint)
    items, category = _goods_to_show(shop)
    whole = _item_vectors(model, shop, items)
    row = shop.typical_user()[:1]
    sample = shop.test
    user, end = int(sample.user[row]), int(sample.history_end[row])
    batch = one_sample(sample, user, end, 1)
    ctr = _score_items(model, shop, batch, items)
    perplexity = max(2, min(30, len(items) // 4))
    points = TSNE(2, perplexity=perplexity, init="pca", random_state=0, metric="cosine").fit_transform(whole)
    codes = np.unique(category, return_inverse=True)[1]
    goods_only = whole[:, : model.embedding_dim]
    silhouettes = {
        "goods and category": cluster_structure(whole, codes),
        "goods alone": cluster_structure(goods_only, codes),
    }
    return embedding_chart(
        points, list(category), ctr, [shop.item_name(item) for item in items], silhouettes=silhouettes
    )


def measure_structure(rows: dict[str, Checkpoint], shop: Shop, simulation: SimulationConfig) -> pd.DataFrame:
    """What the simulator planted, found or not: ``measure``, ``model``, ``found``, ``by_chance``, ``samples``, a row each.

    Chance is, for silhouettes, the vectors before training: those that hold the category's own form clusters at once.

    Args:
        rows: checkpoints by key; attention of each that has it, movement of those with an evolving interest.
        shop: the simulated dataset.
        simulation: of which its world is made.
    """
    world, found = make_world(simulation), []
    batch = shop.test.batch(_long_histories(shop))
    for key, checkpoint in rows.items():
        model = _model(checkpoint)
        pairs = attention_pairs(model, batch)
        planted = _related(shop, pairs, world)
        attention = attention_structure(pairs, planted)
        measures = [
            ("attention weight on related behaviours", attention["weight_share"], attention["count_share"]),
            ("a related behaviour outweighs another", attention["auc"], 0.5),
        ]
        if hasattr(model, "interest_evolution"):
            pairs, states = interest_path(model, batch)
            ratio = movement_structure(pairs, states, planted)["ratio"]
            measures.append(("steps on related behaviours, in steps on others", ratio, 1.0))
        items, category = _goods_to_show(shop)
        codes, width = np.unique(category, return_inverse=True)[1], model.embedding_dim
        vectors, before = (
            _item_vectors(each, shop, items)
            for each in (model, untrained(checkpoint, checkpoint["seeds"][0]).eval())
        )
        for what, columns in (("goods and category", slice(None)), ("goods alone", slice(width))):
            found_before = (cluster_structure(each[:, columns], codes) for each in (vectors, before))
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


def _candidates(shop: Shop):
    """The typical user's test samples with different candidates, each with its history."""
    rows = shop.typical_user()
    _, first = np.unique(shop.test.item[rows].numpy(), return_index=True)
    return shop.test.batch(torch.from_numpy(rows[np.sort(first)]))


def _rows(pairs: Pairs) -> list[list[float]]:
    return [pairs.weight[pairs.sample == sample].tolist() for sample in np.unique(pairs.sample)]


def _behaviors(shop: Shop, pairs: Pairs) -> list[str]:
    first = pairs.sample == pairs.sample[0]
    return [shop.item_name(item) for item in shop.items_of(pairs.fields[GOODS][first])]


def _long_histories(shop: Shop) -> torch.Tensor:
    rows = np.flatnonzero(shop.test.history_end.numpy() >= 2)
    return torch.from_numpy(rows[:: max(1, len(rows) // MOST_SAMPLES)][:MOST_SAMPLES])


def _related(shop: Shop, pairs: Pairs, world: Any) -> np.ndarray:
    ids = np.concatenate([[0], shop.item_ids["id"].to_numpy()])
    done, shown = (shop.items_of(codes[GOODS]) for codes in (pairs.fields, pairs.candidate))
    known = (done > 0) & (shown > 0)
    found = np.zeros(len(done), bool)
    found[known] = is_related(world, ids[done[known]], ids[shown[known]])
    return found


def _goods_to_show(shop: Shop) -> tuple[np.ndarray, np.ndarray]:
    """Item codes of the largest categories, most seen first, and the category of each."""
    seen = np.bincount(shop.items_of(shop.data.log.fields[GOODS]), minlength=len(shop.category))
    seen[0] = 0
    by_category = (
        pd.Series(seen[1:]).groupby(shop.category[1:]).sum().sort_values(ascending=False, kind="stable")
    )
    largest = by_category.index[:CATEGORIES]
    codes = np.flatnonzero(np.isin(shop.category, largest) & (seen > 0))
    chosen = codes[np.argsort(-seen[codes], kind="stable")][:GOODS_SHOWN]
    return chosen, shop.category[chosen]


def _item_vectors(model: Any, shop: Shop, items: np.ndarray) -> np.ndarray:
    """The candidate's vectors of items: goods, category, … one after the other."""
    codes = {
        field.name: torch.from_numpy(shop.data.features.items[field.name][items])
        for field in model.schema.item
    }
    with torch.inference_mode():
        return model.embeddings(codes, model.schema.item, shop.test.store.cells).numpy()


def _score_items(model: Any, shop: Shop, batch: Any, items: np.ndarray) -> np.ndarray:
    from deep_interest.serving.scorer import Scorer  # noqa: PLC0415

    codes = {
        field.name: torch.from_numpy(shop.data.features.items[field.name][items])
        for field in model.schema.item
    }
    return Scorer(model, cells=batch.cells)(
        batch.history, codes, profile=batch.profile, context=batch.context
    ).numpy()
