"""``docs/performance.md`` and its pictures from the benchmarks' JSON lines: ``python benchmarks/page.py build/bench/*.jsonl``.

`make bench` runs the benchmarks first, each into a file of its own.
"""

import argparse
import json
import os
import platform
import re
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from deep_interest.ops.vectors import WIDE

DOCS = Path(__file__).parents[1] / "docs"
BLUE = "#0072B2"


def this_machine() -> str:
    """Its cores and their kind."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    name = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    kind = name[1] if name else platform.machine()
    return f"{os.cpu_count()} cores of {kind}{' with AVX-512' if WIDE else ''}"


def read(files: list[Path]) -> dict[str, pd.DataFrame]:
    """The lines of all files, a table for each benchmark."""
    lines = [
        json.loads(line) for file in files for line in file.read_text().splitlines() if line.startswith("{")
    ]
    names = dict.fromkeys(line["bench"] for line in lines)
    return {name: pd.DataFrame([line for line in lines if line["bench"] == name]) for name in names}


def markdown(frame: pd.DataFrame, names: dict[str, str]) -> str:
    """A Markdown table of some columns under other names; those that the frame lacks are left out."""
    names = {column: name for column, name in names.items() if column in frame}
    numeric = {column for column in names if pd.api.types.is_numeric_dtype(frame[column])}
    head = "| " + " | ".join(names.values()) + " |"
    rule = "| " + " | ".join("---:" if column in numeric else ":---" for column in names) + " |"
    rows = ["| " + " | ".join(_cell(row[column]) for column in names) + " |" for _, row in frame.iterrows()]
    return "\n".join([head, rule, *rows])


def _cell(value) -> str:
    if isinstance(value, float):
        if pd.isna(value):
            return "–"
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def compare_section(frame: pd.DataFrame) -> str:
    names = {
        "model": "Model", "case": "Histories", "batch_size": "Batch", "embedding_dim": "Width", "peer": "Library",
        "samples_per_s": "Ours, samples/s", "peer_samples_per_s": "Theirs", "ratio": "Ratio",
    }  # fmt: skip
    keys = ["model", "case", "batch_size", "embedding_dim"]
    best = frame.loc[frame.groupby(keys, sort=False)["ratio"].idxmin()]
    figure = Figure(figsize=(7.5, 0.8 + 0.4 * len(best)), layout="constrained")
    axes = figure.add_subplot()
    labels = [
        f"{r.model.upper()}, {r.case}, batch {r.batch_size}, width {r.embedding_dim}"
        for r in best.itertuples()
    ]
    bars = axes.barh(labels, best["ratio"], color=BLUE)
    axes.bar_label(bars, [f" {r.ratio:g} × {r.peer}" for r in best.itertuples()], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlabel("our samples per second over those of the library that comes closest")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images/speed_against_libraries.png", dpi=130)
    return (
        "## Against other libraries\n\nEach library trains by its own loop, by turns with ours (`python benchmarks/compare.py`, medians of five turns). Width: "
        "embedding of item and of category.\n\n![Ratio to the library that comes closest](images/speed_against_libraries.png)\n\n" + markdown(frame, names)
    )  # fmt: skip


def train_section(frame: pd.DataFrame) -> str:
    shares = ("share_of_peak", "share_of_torch")
    frame = frame.assign(**{name: [f"{share:.0%}" for share in frame[name]] for name in shares})
    names = {
        "model": "Model", "case": "Histories", "batch_size": "Batch", "samples_per_s": "Samples/s", "share_of_peak": "Of peak",
        "share_of_torch": "Of torch's", "peak_rss_mb": "Peak memory, MB",
    }  # fmt: skip
    fastest, torchs = (f"{frame[name].median():.0f}" for name in ("peak_gflops", "torch_gflops"))
    return (
        "## Training\n\nWhole training steps, batch gathering included (`python benchmarks/train.py`). *Of peak*: the matrix products that the "
        f"model's equations need, against the fastest float32 matrix product measured on the same threads, torch's or the engine's own: {fastest} billion "
        f"operations a second. *Of torch's*: against torch's own, {torchs} billion. Peak memory "
        "is that of a process which trains this model with this batch and the smaller ones.\n\n" + markdown(frame, names)
    )  # fmt: skip


def breakdown_section(frame: pd.DataFrame) -> str:
    frame = frame.assign(share=[f"{share:.0%}" for share in frame["share"]])
    names = {
        "model": "Model",
        "batch_size": "Batch",
        "part": "Part of a step",
        "ms": "Milliseconds",
        "share": "Share",
    }
    return (
        "## Where a step's time goes\n\nHistories are jagged (`python benchmarks/breakdown.py`). The compiled loops of attention units, GRUs and "
        "fully connected layers hold the products that *of peak* counts, and what goes with them, such as activations. *Between the loops* are Python, "
        "autograd, torch's own operations, and what one thread does for all: sorting codes, and bringing weights into the order in which products read them.\n\n" + markdown(frame, names)
    )  # fmt: skip


def scale_section(frame: pd.DataFrame) -> str:
    points, slopes = frame[frame["size"].notna()], frame[frame["slope"].notna()]
    figure = Figure(figsize=(8, 3), layout="constrained")
    titles = {"samples": "seconds of an epoch", "history": "seconds a sample", "table": "seconds a step"}
    series = list(points.groupby("case", sort=False))
    for axes, (case, rows) in zip(figure.subplots(1, len(series), squeeze=False)[0], series, strict=True):
        axes.loglog(rows["size"], rows["seconds"], "o-", color=BLUE)
        axes.set_ylim(rows["seconds"].min() / 3, rows["seconds"].max() * 3)
        axes.set_title(titles[case], fontsize=10)
        axes.set_xlabel(
            {"samples": "samples", "history": "behaviours in a history", "table": "rows of the goods table"}[
                case
            ]
        )
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images/growth.png", dpi=130)
    names = {"case": "Against", "slope": "Slope", "last_to_first": "Last to first"}
    return (
        "## Growth\n\nSlope of the logarithms: 1 is linear, 0 is no growth (`python benchmarks/scale.py`).\n\n![Growth](images/growth.png)\n\n"
        + markdown(slopes, names)
    )  # fmt: skip


def score_section(frame: pd.DataFrame) -> str:
    names = {
        "model": "Model",
        "embedding_dim": "Width",
        "case": "Request",
        "p50_ms": "Median, ms",
        "p99_ms": "99 %, ms",
    }
    return (
        "## Scoring\n\nOne user's candidates at a time; what depends on the user alone is computed once a request "
        "(`python benchmarks/score.py`).\n\n" + markdown(frame, names)
    )  # fmt: skip


def ingest_section(frame: pd.DataFrame) -> str:
    names = {
        "case": "Raw files",
        "read_seconds": "To tables, s",
        "seconds": "On to samples, s",
        "peak_rss_mb": "Peak memory, MB",
    }
    return "## From raw files to samples\n\n`python benchmarks/ingest.py`.\n\n" + markdown(frame, names)


SECTIONS = {
    "compare": compare_section, "train": train_section, "breakdown": breakdown_section,
    "scale": scale_section, "score": score_section, "ingest": ingest_section,
}  # fmt: skip


def main() -> None:
    """Write the page of what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--machine", default=this_machine(), help="what to call it")
    options = parser.parse_args()
    tables = read(options.files)
    threads = sorted(
        {int(n) for table in tables.values() if "threads" in table for n in table["threads"].dropna()}
    )
    head = (
        f"# Performance\n\nMeasured on {options.machine}, {' or '.join(map(str, threads))} threads, float32. Embeddings of 64 + 64, "
        "attention 80-40, MLP 200-80, Adam, 63,001 items and 801 categories; histories *jagged* (mean 9, at most 100) or *full* (all 100), unless the "
        "line says otherwise. `make bench` measures every model and case, and writes this page anew. Fewer cases on "
        "[a smaller machine](performance_zen4.md), on [an Intel one](performance_intel.md) and on [one without AVX-512](performance_zen3.md)."
    )  # fmt: skip
    parts = [section(tables[name]) for name, section in SECTIONS.items() if name in tables]
    (DOCS / "performance.md").write_text("\n\n".join([head, *parts]) + "\n")


if __name__ == "__main__":
    main()
