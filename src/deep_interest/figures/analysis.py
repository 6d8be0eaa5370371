"""The papers' pictures of a trained model: what attention, embeddings and evolving interests have learnt."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.figures.chart import Bars, Cells, Chart, Line, Panel, Points, Rule


def activation_chart(
    means: NDArray[np.floating],
    deviations: NDArray[np.floating],
    alphas: NDArray[np.floating],
    prelu: NDArray[np.floating],
) -> Chart:
    """PReLU and Dice with what they have learnt (DIN Fig. 3): the control function p(s), and f(s).

    Args:
        means, deviations, alphas: ``(C,)`` of Dice's channels: E[s], sqrt(Var[s]) and α.
        prelu: ``(C,)`` α of PReLU's channels.
    """
    s = np.linspace(-6, 6, 241)
    order = np.argsort(means)
    chosen = {f"Dice, channel {place}": order[int(share * (len(order) - 1))] for place, share in
              (("at 10 % of E[s]", 0.1), ("in the middle", 0.5), ("at 90 %", 0.9))}  # fmt: skip
    alpha = float(np.mean(prelu))
    control = [Line(s.tolist(), (s > 0).astype(float).tolist(), "PReLU", colour=-1, dashed=True)]
    value = [Line(s.tolist(), np.where(s > 0, s, alpha * s).tolist(), "PReLU", colour=-1, dashed=True)]
    for colour, (name, channel) in enumerate(chosen.items()):
        p = 1 / (1 + np.exp(-(s - means[channel]) / deviations[channel]))
        control.append(Line(s.tolist(), p.tolist(), name, colour=colour))
        value.append(Line(s.tolist(), (p * s + (1 - p) * alphas[channel] * s).tolist(), name, colour=colour))
    spread = Points(
        means.tolist(),
        deviations.tolist(),
        "a channel of Dice",
        text=[f"channel {k}" for k in range(len(means))],
    )
    panels = [
        Panel(control, title="Control function p(s)", x="s"),
        Panel(value, title="Activation f(s)", x="s"),
        Panel([spread, Rule(0, "PReLU's bend")], title="Where Dice bends", x="E[s]", y="sqrt(Var[s])"),
    ]
    return Chart(
        "PReLU and Dice as learnt (DIN Fig. 3)", panels, columns=3,
        note="First hidden layer. PReLU bends at 0 whatever its input; Dice bends at its input's mean, the more gently the wider "
        f"the input. PReLU's mean slope is {alpha:.3f}.",
        numbers={"mean |E[s]| in deviations": float(np.mean(np.abs(means) / deviations))},
    )  # fmt: skip


def attention_chart(
    weights: Sequence[Sequence[float]], behaviors: Sequence[str], candidates: Sequence[str], predictions: Sequence[float], *,
    title: str,
) -> Chart:  # fmt: skip
    """Activation weights over one user's behaviours for several candidates (DIN Fig. 5).

    Args:
        weights: a row for each candidate, a weight for each behaviour, oldest first.
        behaviors, candidates: their labels.
        predictions: predicted CTR of each candidate.
        title: heading.
    """
    labels = [f"{label} ({p:.0%})" for label, p in zip(candidates, predictions, strict=True)]
    panel = Panel(
        [Cells(weights, "weight")],
        x="behaviours, oldest first",
        x_ticks=behaviors,
        y_ticks=labels,
    )
    return Chart(
        title, [panel], height=200 + 34 * len(candidates),
        note="One row a candidate, with its predicted CTR; the brighter a cell, the more the behaviour counts for it.",
    )  # fmt: skip


def embedding_chart(
    points: NDArray[np.floating], category: Sequence[str], ctr: NDArray[np.floating], items: Sequence[str], *,
    silhouettes: dict[str, float],
) -> Chart:  # fmt: skip
    """t-SNE of items' vectors, shape by category, colour by one user's predicted CTR (DIN Fig. 6).

    Args:
        points: ``(n, 2)``.
        category: of each point.
        ctr: ``(n,)`` predicted for one user.
        items: labels.
        silhouettes: by what is clustered.
    """
    marks = []
    for number, name in enumerate(dict.fromkeys(category)):
        rows = [row for row, other in enumerate(category) if other == name]
        marks.append(
            Points(
                points[rows, 0].tolist(), points[rows, 1].tolist(), str(name), symbol=number, values=ctr[rows].tolist(), scale="predicted CTR",
                text=[f"{items[row]}, {name}: {ctr[row]:.1%}" for row in rows],
            )
        )  # fmt: skip
    low, high = float(ctr.min()), float(ctr.max())
    said = ", ".join(f"{name} {value:.3f}" for name, value in silhouettes.items())
    return Chart(
        "Items as the model sees them (DIN Fig. 6)", [Panel(marks, x="t-SNE 1", y="t-SNE 2")], height=480, numbers=silhouettes,
        note=f"Shape by category, colour by the predicted CTR for one user (from {low:.1%} to {high:.1%}). Silhouette of the categories by cosine, "
        f"in all of the vectors' dimensions: {said} (1 is clusters far apart, 0 is none). t-SNE keeps neighbours, not distances.",
    )  # fmt: skip


def evolution_chart(
    paths: Sequence[NDArray[np.floating]], weights: Sequence[Sequence[float]], behaviors: Sequence[str],
    candidates: Sequence[str], explained: Sequence[float],
) -> Chart:  # fmt: skip
    """One history, several targets (DIEN Fig. 3): the path of the AUGRU's states in two principal components, and attention.

    Args:
        paths: for each target ``(T + 1, 2)``, from the initial state.
        weights: for each target, a weight for each behaviour.
        behaviors, candidates: labels.
        explained: share of the variance that either component has.
    """
    lines = [
        Line(path[:, 0].tolist(), path[:, 1].tolist(), name, colour=number, markers=True)
        for number, (path, name) in enumerate(zip(paths, candidates, strict=True))
    ]
    curves = [
        Line(list(range(len(row))), list(row), name, colour=number, markers=True)
        for number, (row, name) in enumerate(zip(weights, candidates, strict=True))
    ]
    panels = [
        Panel(
            lines,
            title="Path of the evolving interest",
            x=f"component 1 ({explained[0]:.0%})",
            y=f"component 2 ({explained[1]:.0%})",
        ),
        Panel(
            curves,
            title="Attention by behaviour",
            x="behaviours, oldest first",
            y="weight",
            x_ticks=behaviors,
        ),
    ]
    return Chart(
        "Interest evolution for several targets (DIEN Fig. 3)", panels, columns=2, height=400,
        note="All paths begin at the same point. A long step is a behaviour that counts for the target.",
    )  # fmt: skip


def structure_chart(numbers: pd.DataFrame) -> Chart:
    """What was planted and what was found, a panel a measure: ``measure``, ``model``, ``found``, ``by_chance``."""
    panels = []
    for measure, rows in numbers.groupby("measure", sort=False):
        places = np.arange(len(rows), dtype=float)
        marks = [
            Points(rows["by_chance"].tolist(), places.tolist(), "by chance", colour=-1, symbol=1),
            Points(rows["found"].tolist(), places.tolist(), "found"),
        ]
        right = [f"{value:.3f}" for value in rows["found"]]
        panels.append(
            Panel(
                marks,
                title=str(measure).capitalize(),
                y_ticks=rows["model"].tolist(),
                right=right,
                downwards=True,
            )
        )
    return Chart(
        "What the simulator planted, and what the models found", panels, height=230, columns=2,
        note="Related are behaviours in the candidate's category or in the stage before it on its theme's path: those the "
        "simulator gives most weight. By chance: the same share, steps as long, and the vectors before training.",
    )  # fmt: skip


def explanation_chart(
    effects: Sequence[float], weights: Sequence[float] | None, labels: Sequence[str], *, title: str
) -> Chart:
    """What one prediction rests on: the effect of each behaviour on the log-odds, beside its attention weight."""
    places = list(range(len(labels)))
    panels = [Panel([Bars(places, effects, "effect on the log-odds", lying=True)], title="Effect", x="log-odds", y_ticks=labels,
                    downwards=True)]  # fmt: skip
    if weights is not None:
        panels.append(
            Panel([Bars(places, weights, "attention weight", colour=1, lying=True)], title="Attention", x="weight", y_ticks=labels,
                  downwards=True)
        )  # fmt: skip
    return Chart(title, panels, columns=2, height=110 + 24 * len(labels))
