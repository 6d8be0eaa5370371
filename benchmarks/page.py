"""Write ``docs/performance.md``, its plots and the README's speed table from the JSON lines of the benchmarks.

    python benchmarks/page.py build/bench/*.jsonl

The page has a part for every machine. Only the measured sections of that machine are replaced; its other sections
and all other machines stay. `make bench` runs all benchmarks first, each into a file of its own.
"""

import argparse
import json
from pathlib import Path

import pandas as pd
from machine import this_commit, this_machine
from page_parts import between_markers, markdown, with_machine
from page_plots import plot_growth, plot_ratios
from speed_tables import readme_table, summary, title

PROJECT = Path(__file__).parents[1]
PAGE, README = PROJECT / "docs/performance.md", PROJECT / "README.md"
LAYERS = {
    "attention net ": "",
    "auxiliary net": "aux",
    ", inner-product auxiliary loss": ", inner-product aux",
}
LAYERS |= {" attention": "", "no auxiliary loss": "no aux"}
"""Short forms of what `cases.py` calls the layers."""


def read(files: list[Path], machine: str, commit: str) -> dict[str, dict[str, pd.DataFrame]]:
    """Read the lines of all files as a table for each machine and benchmark.

    Args:
        files: files with JSON lines; other lines are ignored.
        machine: name of the machine for lines that do not name it.
        commit: commit for lines that do not name it.
    """
    lines: dict[str, dict[str, list]] = {}
    for text in (line for file in files for line in file.read_text().splitlines() if line.startswith("{")):
        line = {"machine": machine, "commit": commit} | json.loads(text)
        lines.setdefault(line["machine"], {}).setdefault(line["bench"], []).append(line)
    return {name: {bench: pd.DataFrame(rows) for bench, rows in own.items()} for name, own in lines.items()}


def compare_section(frame: pd.DataFrame, machine: str) -> str:
    """Format the comparisons with other libraries and plain PyTorch."""
    best = summary(frame)
    image = plot_ratios(best, machine)
    best["model"] = [title(row) for row in best.itertuples()]
    frame = frame.replace({"layers": LAYERS, "peer_name": {"plain PyTorch, ": "plain, "}}, regex=True)
    short = {
        "model": "Model", "case": "Histories", "batch_size": "Batch", "embedding_dim": "Width",
        "ratio": "To library", "plain_ratio": "To plain", "compiled_ratio": "To compiled", "samples_per_s": "Ours", "library": "Library",
        "library_samples_per_s": "Its speed", "plain_samples_per_s": "Plain",
    }  # fmt: skip
    names = {
        "model": "Model", "case": "Histories", "batch_size": "Batch", "embedding_dim": "Width",
        "peer_name": "Against", "form": "Form", "layers": "Layers", "samples_per_s": "Ours", "peer_samples_per_s": "Theirs",
        "ratio": "Ratio",
    }  # fmt: skip
    plot = f"![Ratios like for like]({image})"
    return f"{plot}\n\n{markdown(best, short)}\n\nAll comparisons:\n\n{markdown(frame, names)}"


def train_section(frame: pd.DataFrame, machine: str) -> str:
    """Format the training speeds."""
    peak, torch_peak = (f"{frame[name].median():.0f}" for name in ("peak_gflops", "torch_gflops"))
    shares = ("share_of_peak", "share_of_torch")
    frame = frame.assign(**{name: [f"{share:.0%}" for share in frame[name]] for name in shares})
    names = {
        "model": "Model", "case": "Histories", "batch_size": "Batch", "samples_per_s": "Samples/s",
        "share_of_peak": "Of peak", "share_of_torch": "Of torch's peak", "peak_rss_mb": "Peak memory, MB",
    }  # fmt: skip
    return f"Peak: {peak} GFLOP/s; torch's peak: {torch_peak} GFLOP/s.\n\n{markdown(frame, names)}"


def breakdown_section(frame: pd.DataFrame, machine: str) -> str:
    """Format the time of each part of a training step."""
    frame = frame.assign(share=[f"{share:.0%}" for share in frame["share"]])
    names = {
        "model": "Model",
        "batch_size": "Batch",
        "part": "Part of a step",
        "ms": "Time, ms",
        "share": "Share",
    }
    return markdown(frame, names)


def scale_section(frame: pd.DataFrame, machine: str) -> str:
    """Format how time grows with the sizes of the data."""
    image = plot_growth(frame[frame["size"].notna()], machine)
    names = {"case": "Size", "slope": "Slope", "last_to_first": "Last to first"}
    return f"![Growth]({image})\n\n{markdown(frame[frame['slope'].notna()], names)}"


def score_section(frame: pd.DataFrame, machine: str) -> str:
    """Format the latencies of scoring."""
    names = {
        "model": "Model",
        "embedding_dim": "Width",
        "case": "Request",
        "p50_ms": "p50, ms",
        "p99_ms": "p99, ms",
    }
    return markdown(frame, names)


def ingest_section(frame: pd.DataFrame, machine: str) -> str:
    """Format the times of reading raw files."""
    names = {
        "case": "Raw files", "read_seconds": "To tables, s", "seconds": "On to samples, s",
        "peak_rss_mb": "Peak memory, MB",
    }  # fmt: skip
    return markdown(frame, names)


SECTIONS = {
    "compare": ("Other libraries and plain PyTorch", compare_section), "train": ("Training", train_section),
    "breakdown": ("Time of a training step", breakdown_section), "scale": ("Growth", scale_section),
    "score": ("Scoring", score_section), "ingest": ("From raw files to samples", ingest_section),
}  # fmt: skip
"""The sections of a machine in their order: heading and formatter of each benchmark."""


def measured_by(bench: str, lines: pd.DataFrame) -> str:
    """Name the command, the commits and the threads that the lines of a benchmark were measured with."""
    text = f"`python benchmarks/{bench}.py`, commit {' and '.join(dict.fromkeys(lines['commit']))}"
    if "threads" in lines and lines["threads"].notna().any():
        text += f", {' or '.join(str(int(n)) for n in sorted(lines['threads'].dropna().unique()))} threads"
    return text + "."


def readme_block(lines: pd.DataFrame, machine: str) -> str:
    """Format the README's speed table with what it was measured on."""
    return f"{machine}; {measured_by('compare', lines)}\n\n{readme_table(summary(lines))}"


def main() -> None:
    """Write the measured sections, and the README's table if comparisons were measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", help="JSON lines of the benchmarks")
    parser.add_argument("--machine", default=this_machine(), help="machine of lines that do not name it")
    parser.add_argument("--commit", default=this_commit(), help="commit of lines that do not name it")
    options = parser.parse_args()
    order = [heading for heading, _ in SECTIONS.values()]
    for machine, tables in read(options.files, options.machine, options.commit).items():
        sections = {
            heading: f"{measured_by(bench, tables[bench])}\n\n{section(tables[bench], machine)}"
            for bench, (heading, section) in SECTIONS.items()
            if bench in tables
        }
        PAGE.write_text(with_machine(PAGE.read_text(), machine, sections, order))
        if "compare" in tables:
            block = readme_block(tables["compare"], machine)
            README.write_text(between_markers(README.read_text(), "speed", block))


if __name__ == "__main__":
    main()
