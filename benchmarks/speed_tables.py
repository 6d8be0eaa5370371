"""Tables of the lines of `compare.py`: our speed next to the closest library and to plain PyTorch."""

import pandas as pd
from cases import CASES, PAPER_LAYERS
from environments import PEERS

KEYS = ["model", "case", "batch_size", "embedding_dim"]
FIGURES = [
    "samples_per_s", "library", "library_samples_per_s", "ratio", "plain_samples_per_s", "plain_ratio", "compiled_ratio",
]  # fmt: skip
LIBRARIES = [name for name, peer in PEERS.items() if peer.packages]


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """Summarise comparisons, one row per case and form of our model.

    A row has our speed, the library with the lowest ratio, and plain PyTorch with and without `torch.compile`.

    Args:
        lines: lines of `compare.py`. The last line of a repeated comparison counts.

    Returns:
        Columns ``model, form, case, batch_size, embedding_dim`` and `FIGURES`; NaN where nothing was measured.
    """
    lines = lines.drop_duplicates([*KEYS, "peer", "form"], keep="last")
    rows = []
    for case in CASES:
        wanted = dict(zip(KEYS, (case.model, case.name, case.batch_size, case.dim), strict=True))
        here = lines[(lines[KEYS] == pd.Series(wanted)).all(axis=1)]
        groups = {"like for like": here[here["form"] == "like for like"]}
        if case.model == "dien":
            groups["paper"] = here[here["layers"] == PAPER_LAYERS]
        rows += [wanted | {"form": form} | _row(group) for form, group in groups.items() if len(group)]
    return pd.DataFrame(rows, columns=["form", *KEYS, *FIGURES])


def _row(lines: pd.DataFrame) -> dict:
    by_peer = lines.set_index("peer")
    libraries = by_peer[by_peer.index.isin(LIBRARIES)]
    closest = libraries["ratio"].idxmin() if len(libraries) else None
    found = by_peer.loc[closest if closest is not None else by_peer.index[0]]
    row = {"samples_per_s": found["samples_per_s"]}
    if closest is not None:
        row |= {
            "library": found["peer_name"], "library_samples_per_s": found["peer_samples_per_s"], "ratio": found["ratio"],
        }  # fmt: skip
    if "plain" in by_peer.index:
        plain = by_peer.loc["plain"]
        row |= {"plain_samples_per_s": plain["peer_samples_per_s"], "plain_ratio": plain["ratio"]}
    if "plain_compiled" in by_peer.index:
        row["compiled_ratio"] = by_peer.loc["plain_compiled", "ratio"]
    return row


def title(row) -> str:
    """Name a row of `summary` by its model, and by its form if that is not the peers' own."""
    return row.model.upper() + (", paper's form" if row.form == "paper" else "")


def readme_table(rows: pd.DataFrame) -> str:
    """Format a `summary` as the README's table."""
    lines = [
        "| Model | Histories | Batch | Width | To library | To plain PyTorch | Samples/s | Library | Plain PyTorch |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows.itertuples():
        histories = "all 100" if row.case == "full" else "mean 9"
        library = "–" if pd.isna(row.library) else f"{row.library_samples_per_s:,.0f} ({row.library})"
        plain = "–" if pd.isna(row.plain_samples_per_s) else f"{row.plain_samples_per_s:,.0f}"
        lines.append(
            f"| {title(row)} | {histories} | {row.batch_size} | {row.embedding_dim} + {row.embedding_dim} "
            f"| {_times(row.ratio)} | {_times(row.plain_ratio)} | {row.samples_per_s:,.0f} | {library} | {plain} |"
        )
    return "\n".join(lines)


def _times(ratio: float) -> str:
    return "–" if pd.isna(ratio) else f"{ratio:.1f} ×"
