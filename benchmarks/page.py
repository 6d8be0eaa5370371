"""``docs/performance.md``, its plots and the README's table of speeds from the benchmarks' JSON lines.

    python benchmarks/page.py build/bench/*.jsonl

The sections whose benchmarks the files have are replaced, the others stay. `make bench` runs all benchmarks first, each into its
own file.
"""

import argparse
import json
from pathlib import Path

import pandas as pd
from machine import this_machine
from matplotlib.figure import Figure
from page_parts import between_markers, markdown, with_sections
from speed_tables import readme_table, summary, title

PROJECT = Path(__file__).parents[1]
DOCS = PROJECT / "docs"
BLUE, ORANGE = "#0072B2", "#E69F00"


def read(files: list[Path]) -> dict[str, pd.DataFrame]:
    """The lines of all files, a table for each benchmark."""
    lines = [
        json.loads(line) for file in files for line in file.read_text().splitlines() if line.startswith("{")
    ]
    names = dict.fromkeys(line["bench"] for line in lines)
    return {name: pd.DataFrame([line for line in lines if line["bench"] == name]) for name in names}


def compare_section(frame: pd.DataFrame) -> str:
    best = summary(frame)
    plot_ratios(best)
    best["model"] = [title(row) for row in best.itertuples()]
    short = {
        "model": "Model", "case": "Histories", "batch_size": "Batch", "embedding_dim": "Width", "ratio": "To the closest library",
        "plain_ratio": "To plain PyTorch", "compiled_ratio": "With torch.compile", "samples_per_s": "Ours, samples/s",
        "library_samples_per_s": "Library's", "library": "Library", "plain_samples_per_s": "Plain PyTorch's",
    }  # fmt: skip
    names = {
        "model": "Model", "case": "Histories", "batch_size": "Batch", "embedding_dim": "Width", "peer_name": "Against",
        "form": "Form of ours", "layers": "Its layers", "samples_per_s": "Ours, samples/s", "peer_samples_per_s": "Theirs",
        "ratio": "Ratio",
    }  # fmt: skip
    return (
        f"{COMPARE_TEXT}\n\n![Ratios like for like](images/speed_against_libraries.png)\n\n"
        + markdown(best, short)
        + "\n\nEvery comparison:\n\n"
        + markdown(frame, names)
    )


COMPARE_TEXT = """Each side trains by its own loop, alternating with ours (`python benchmarks/compare.py`, medians of the turns). All have
layers of the same widths, sigmoids in the attention net and PReLU in the MLP, without batch normalisation. *Plain PyTorch* is a DIN
and a DIEN that use no library but torch: jagged histories, sparse gradients with SparseAdam, fused Adam, a folded first layer of the
attention net (`benchmarks/plain_din.py`, `plain_dien.py`); a test checks that they have our losses, step by step.

Like for like, our DIEN has the layers of the other side: attention net 80-40 and auxiliary net 100-50-1 against DeepCTR-Torch,
RecBole and plain PyTorch; no auxiliary loss against FuxiCTR, which has none; bilinear attention and an auxiliary loss on inner
products against torch-rechub. The last is also the form of DIEN's paper: rows called *paper's form* compare it with all of them, and
so with models that do more. Torch-rechub attends item and category apart, with GRUs of half the width, which is about half of our
work. *Ours* is from the turns with the closest library. Width: embedding of item and of category."""


def plot_ratios(best: pd.DataFrame) -> None:
    """Draw the like-for-like ratios to the closest library and to plain PyTorch."""
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
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images/speed_against_libraries.png", dpi=130)


def train_section(frame: pd.DataFrame) -> str:
    shares = ("share_of_peak", "share_of_torch")
    frame = frame.assign(**{name: [f"{share:.0%}" for share in frame[name]] for name in shares})
    names = {
        "model": "Model", "case": "Histories", "batch_size": "Batch", "samples_per_s": "Samples/s", "share_of_peak": "Of peak",
        "share_of_torch": "Of torch's", "peak_rss_mb": "Peak memory, MB",
    }  # fmt: skip
    fastest, torchs = (f"{frame[name].median():.0f}" for name in ("peak_gflops", "torch_gflops"))
    return (
        "Whole training steps, batch gathering included (`python benchmarks/train.py`). *Of peak*: the matrix products that the "
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
        "Histories are jagged (`python benchmarks/breakdown.py`). The compiled loops of attention units, GRUs and "
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
        "Slope of the logarithms: 1 is linear, 0 is no growth (`python benchmarks/scale.py`).\n\n![Growth](images/growth.png)\n\n"
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
        "One user's candidates at a time; what depends on the user alone is computed once a request "
        "(`python benchmarks/score.py`).\n\n" + markdown(frame, names)
    )  # fmt: skip


def ingest_section(frame: pd.DataFrame) -> str:
    names = {
        "case": "Raw files",
        "read_seconds": "To tables, s",
        "seconds": "On to samples, s",
        "peak_rss_mb": "Peak memory, MB",
    }
    return "`python benchmarks/ingest.py`.\n\n" + markdown(frame, names)


SECTIONS = {
    "compare": ("Against other libraries and plain PyTorch", compare_section), "train": ("Training", train_section),
    "breakdown": ("Where a step's time goes", breakdown_section), "scale": ("Growth", scale_section),
    "score": ("Scoring", score_section), "ingest": ("From raw files to samples", ingest_section),
}  # fmt: skip
"""The page's sections in their order: heading and text of each benchmark."""


def measured_on(table: pd.DataFrame, machine: str) -> str:
    """On which machine, and with how many threads, the lines of a benchmark were measured."""
    names = table["machine"].fillna(machine) if "machine" in table else pd.Series([machine])
    text = f"Measured on {' and '.join(dict.fromkeys(names))}"
    if "threads" in table:
        text += f", {' or '.join(str(int(n)) for n in sorted(table['threads'].dropna().unique()))} threads"
    return text + "."


def main() -> None:
    """Write the sections of what was measured, and the README's table if the comparisons are among it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--machine", default=this_machine(), help="what to call it")
    options = parser.parse_args()
    tables = read(options.files)
    sections = {}
    for name, (heading, text) in SECTIONS.items():
        if name in tables:
            where = measured_on(tables[name], options.machine)
            sections[heading] = f"## {heading}\n\n{where} {text(tables[name])}"
    page = DOCS / "performance.md"
    page.write_text(with_sections(page.read_text(), sections, [heading for heading, _ in SECTIONS.values()]))
    if "compare" in tables:
        readme = PROJECT / "README.md"
        where = measured_on(tables["compare"], options.machine)
        table = f"{where}\n\n{readme_table(summary(tables['compare']))}"
        readme.write_text(between_markers(readme.read_text(), "speed", table))


if __name__ == "__main__":
    main()
