"""Plots of ``docs/performance.md``, one file per machine."""

import re
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

DOCS = Path(__file__).parents[1] / "docs"
BLUE, ORANGE = "#0072B2", "#E69F00"


def image_path(name: str, machine: str) -> str:
    """Return the path of a machine's plot, relative to ``docs/``."""
    slug = re.sub(r"[^a-z0-9]+", "_", machine.lower()).strip("_")
    return f"images/performance/{slug}_{name}.png"


def plot_ratios(best: pd.DataFrame, machine: str) -> str:
    """Draw the like-for-like ratios to the closest library and plain PyTorch; return the path relative to ``docs/``."""
    rows = best[best["form"] == "like for like"]
    labels = [
        f"{r.model.upper()}, {r.case}, batch {r.batch_size}, width {r.embedding_dim}"
        for r in rows.itertuples()
    ]
    figure = Figure(figsize=(7.5, 0.9 + 0.6 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    series = {"ratio": (-0.2, BLUE, "closest library"), "plain_ratio": (0.2, ORANGE, "plain PyTorch")}
    for column, (shift, color, label) in series.items():
        values = rows[column].fillna(0.0)
        bars = axes.barh([y + shift for y in range(len(rows))], values, height=0.38, color=color, label=label)
        names = rows["library"].fillna("") if column == "ratio" else [""] * len(rows)
        axes.bar_label(bars, [f" {v:.1f} × {n}" for v, n in zip(values, names, strict=True)], fontsize=8)
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlabel("our samples per second over theirs, like for like")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    return _save(figure, [axes], image_path("ratios", machine))


def plot_growth(points: pd.DataFrame, machine: str) -> str:
    """Draw time against each size on logarithmic axes; return the path relative to ``docs/``."""
    figure = Figure(figsize=(8, 3), layout="constrained")
    titles = {"samples": "seconds per epoch", "history": "seconds per sample", "table": "seconds per step"}
    sizes = {"samples": "samples", "history": "behaviours in a history", "table": "rows of the item table"}
    series = list(points.groupby("case", sort=False))
    panels = list(figure.subplots(1, len(series), squeeze=False)[0])
    for axes, (case, rows) in zip(panels, series, strict=True):
        axes.loglog(rows["size"], rows["seconds"], "o-", color=BLUE)
        axes.set_ylim(rows["seconds"].min() / 3, rows["seconds"].max() * 3)
        axes.set_title(titles[case], fontsize=10)
        axes.set_xlabel(sizes[case])
    return _save(figure, panels, image_path("growth", machine))


def _save(figure: Figure, panels: list, image: str) -> str:
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    path = DOCS / image
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return image
