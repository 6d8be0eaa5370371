"""Charts of a trained model: activations, attention, embeddings, evolving interests, and explanations of a prediction."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.figures.chart import Bars, Chart, HeatMap, Line, Panel, Points, VerticalLine

DICE_CHANNELS = {
    "low E[s]": 0.1,
    "median E[s]": 0.5,
    "high E[s]": 0.9,
}  # quantiles of the channels that are drawn


def activation_chart(
    means: NDArray[np.floating],
    deviations: NDArray[np.floating],
    alphas: NDArray[np.floating],
    prelu_alphas: NDArray[np.floating],
) -> Chart:
    """Draw the learned PReLU and Dice: the control function p(s), the activation f(s), and Dice's statistics (DIN Fig. 3).

    Args:
        means, deviations, alphas: ``(C,)`` E[s], sqrt(Var[s]) and α of Dice's channels.
        prelu_alphas: α of PReLU, one per channel or one for all.
    """
    s = np.linspace(-6, 6, 241)
    order = np.argsort(means)
    alpha = float(np.mean(prelu_alphas))
    control = [Line(s.tolist(), (s > 0).astype(float).tolist(), "PReLU", color=-1, dashed=True)]
    activation = [Line(s.tolist(), np.where(s > 0, s, alpha * s).tolist(), "PReLU", color=-1, dashed=True)]
    for color, (label, quantile) in enumerate(DICE_CHANNELS.items()):
        channel, name = order[int(quantile * (len(order) - 1))], f"Dice, {label}"
        p = 1 / (1 + np.exp(-(s - means[channel]) / deviations[channel]))
        control.append(Line(s.tolist(), p.tolist(), name, color=color))
        values = p * s + (1 - p) * alphas[channel] * s
        activation.append(Line(s.tolist(), values.tolist(), name, color=color))
    channels = Points(
        means.tolist(), deviations.tolist(), "channel of Dice", hover=[f"channel {k}" for k in range(len(means))]
    )  # fmt: skip
    panels = [
        Panel(control, title="Control function p(s)", x_label="s"),
        Panel(activation, title="Activation f(s)", x_label="s"),
        Panel(
            [channels, VerticalLine(0, "slope change of PReLU")], title="Statistics of Dice's channels", x_label="E[s]",
            y_label="sqrt(Var[s])",
        ),
    ]  # fmt: skip
    return Chart(
        "PReLU and Dice after training (DIN Fig. 3)", panels, columns=3,
        note="First hidden layer. PReLU changes its slope at 0 for any input; Dice changes it at the mean of its input, more smoothly "
        f"the wider the input is spread. The mean negative slope of PReLU is {alpha:.3f}.",
        metrics={"mean |E[s]| in standard deviations": float(np.mean(np.abs(means) / deviations))},
    )  # fmt: skip


def attention_chart(
    weights: Sequence[Sequence[float]], behaviors: Sequence[str], candidates: Sequence[str], predictions: Sequence[float], *,
    title: str,
) -> Chart:  # fmt: skip
    """Draw the attention weights of one user's behaviours for several candidates as a heat map (DIN Fig. 5).

    Args:
        weights: one row per candidate, one weight per behaviour, oldest first.
        behaviors: labels of the behaviours.
        candidates: labels of the candidates.
        predictions: predicted CTR of each candidate.
        title: heading of the chart.
    """
    labels = [f"{label} ({p:.0%})" for label, p in zip(candidates, predictions, strict=True)]
    panel = Panel(
        [HeatMap(weights, "attention weight")], x_label="behaviours, oldest first", x_ticks=behaviors, y_ticks=labels
    )  # fmt: skip
    return Chart(
        title, [panel], row_height=200 + 34 * len(candidates),
        note="One row per candidate, with its predicted CTR. The brighter a cell, the more weight the behaviour has.",
    )  # fmt: skip


def embedding_chart(
    points: NDArray[np.floating], categories: Sequence[str], ctr: NDArray[np.floating], items: Sequence[str], *,
    silhouettes: dict[str, float],
) -> Chart:  # fmt: skip
    """Draw item embeddings in two dimensions, with a symbol per category, coloured by one user's predicted CTR (DIN Fig. 6).

    Args:
        points: ``(n, 2)`` t-SNE of the embeddings.
        categories: category of each item.
        ctr: ``(n,)`` predicted CTR of each item for one user.
        items: labels of the items.
        silhouettes: silhouette of the categories by embedding.
    """
    marks = []
    for symbol, category in enumerate(dict.fromkeys(categories)):
        rows = [row for row, other in enumerate(categories) if other == category]
        marks.append(
            Points(
                points[rows, 0].tolist(), points[rows, 1].tolist(), str(category), symbol=symbol,
                color_values=ctr[rows].tolist(), color_label="predicted CTR",
                hover=[f"{items[row]}, {category}: {ctr[row]:.1%}" for row in rows],
            )
        )  # fmt: skip
    low, high = float(ctr.min()), float(ctr.max())
    scores = ", ".join(f"{name} {value:.3f}" for name, value in silhouettes.items())
    return Chart(
        "Item embeddings (DIN Fig. 6)", [Panel(marks, x_label="t-SNE 1", y_label="t-SNE 2")], row_height=480, metrics=silhouettes,
        note=f"Symbols show categories, colours the predicted CTR for one user ({low:.1%} to {high:.1%}). Silhouette of the categories "
        f"in all dimensions of the embedding, by cosine distance: {scores} (1: well separated clusters, 0: no clusters). t-SNE preserves "
        "neighbours, not distances.",
    )  # fmt: skip


def evolution_chart(
    paths: Sequence[NDArray[np.floating]], weights: Sequence[Sequence[float]], behaviors: Sequence[str],
    candidates: Sequence[str], explained_variance: Sequence[float],
) -> Chart:  # fmt: skip
    """Draw how the interest evolves over one history for several targets: AUGRU states and attention (DIEN Fig. 3).

    Args:
        paths: ``(T + 1, 2)`` per target, two principal components of the states, from the initial state on.
        weights: one weight per behaviour and target.
        behaviors: labels of the behaviours.
        candidates: labels of the targets.
        explained_variance: share of the variance that each component explains.
    """
    states = [
        Line(path[:, 0].tolist(), path[:, 1].tolist(), name, color=color, markers=True)
        for color, (path, name) in enumerate(zip(paths, candidates, strict=True))
    ]
    attention = [
        Line(list(range(len(row))), list(row), name, color=color, markers=True)
        for color, (row, name) in enumerate(zip(weights, candidates, strict=True))
    ]
    first, second = explained_variance
    panels = [
        Panel(
            states, title="Path of the interest state", x_label=f"component 1 ({first:.0%})", y_label=f"component 2 ({second:.0%})"
        ),
        Panel(
            attention, title="Attention by behaviour", x_label="behaviours, oldest first", y_label="attention weight",
            x_ticks=behaviors,
        ),
    ]  # fmt: skip
    return Chart(
        "Interest evolution for several targets (DIEN Fig. 3)", panels, columns=2, row_height=400,
        note="All paths start from the same point. A long step marks a behaviour that matters for the target.",
    )  # fmt: skip


def structure_chart(measures: pd.DataFrame) -> Chart:
    """Draw measures of the structure that models have learned, one panel per measure.

    Args:
        measures: columns ``measure``, ``model``, ``found``, ``by_chance``; one row per measure and model.
    """
    panels = []
    for measure, rows in measures.groupby("measure", sort=False):
        positions = list(range(len(rows)))
        marks = [
            Points(rows["by_chance"].tolist(), positions, "by chance", color=-1, symbol=1),
            Points(rows["found"].tolist(), positions, "found"),
        ]
        panels.append(
            Panel(
                marks, title=measure[0].upper() + measure[1:], y_ticks=rows["model"].tolist(), y_reversed=True,
                right_labels=[f"{value:.3f}" for value in rows["found"]],
            )
        )  # fmt: skip
    return Chart(
        "Structure of the simulator that the models have learned", panels, row_height=230, columns=2,
        note="Related behaviours are those in the candidate's category or in the category before it on its theme's path; the simulator "
        "gives them the largest influence. By chance: the same share of the weight, steps of equal length, and the embeddings before "
        "training.",
    )  # fmt: skip


def explanation_chart(
    effects: Sequence[float], weights: Sequence[float] | None, labels: Sequence[str], *, title: str
) -> Chart:
    """Draw the effect of each behaviour on the log-odds of one prediction, next to its attention weight.

    Args:
        effects: effect of each behaviour.
        weights: attention weight of each behaviour; None for a model without attention.
        labels: labels of the behaviours.
        title: heading of the chart.
    """
    positions = list(range(len(labels)))
    panels = [
        Panel(
            [Bars(positions, effects, "effect on the log-odds")], title="Effect", x_label="log-odds", y_ticks=labels, y_reversed=True
        )
    ]  # fmt: skip
    if weights is not None:
        bars = Bars(positions, weights, "attention weight", color=1)
        panels.append(Panel([bars], title="Attention", x_label="weight", y_ticks=labels, y_reversed=True))
    return Chart(title, panels, columns=2, row_height=110 + 24 * len(labels))
