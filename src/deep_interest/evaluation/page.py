"""The results table of a dataset as a Markdown page: our metrics, published ones, and what the columns mean."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from deep_interest.evaluation.comparison import ORACLE
from deep_interest.evaluation.published import PublishedMetric
from deep_interest.evaluation.table_notes import (
    GIVEN_HEADINGS,
    ORACLE_HEADING,
    VALIDATION_HEADING,
    column_notes,
    name_of,
)

EMPTY = "–"
SIGNIFICANCE_LEVEL = 0.05  # of p-values after Holm's correction
USERS_ONLY_MARK = " †"  # marks an interval that does not include the seeds
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

CellFormatter = Callable[[pd.Series], str]


def results_markdown(
    results: pd.DataFrame,
    *,
    title: str,
    protocol: str,
    test_samples: int,
    test_users: int,
    published: Mapping[str, Sequence[PublishedMetric]] | None = None,
    base: str = "base",
    curves_show_test: bool = False,
) -> str:
    """Return the page ``results.md``; the same arguments give the same string.

    Args:
        results: table of `comparison.compare`, or the same read back from CSV.
        title: heading of the page.
        protocol: key of the protocol that made and split the samples.
        test_samples: number of test samples.
        test_users: number of users in the test set, including those with samples of one class only.
        published: published metrics of this dataset and protocol by model key (`published.published_metrics`).
        base: key of the model that the others are compared with.
        curves_show_test: whether learning curves next to the page evaluate the test set, too.
    """
    columns, sources = _columns_and_sources(results, published, base)
    notes = column_notes(results, list(columns), base)
    parts = [
        f"# {' '.join(title.splitlines())}",
        _summary(results, protocol, test_samples, test_users, curves_show_test=curves_show_test),
        _table(results, columns),
        _footnotes(sources),
        "## How to read the table\n\n" + "\n".join(f"- {note}" for note in notes),
    ]
    page = "\n\n".join(part for part in parts if part) + "\n"
    return page.replace("<", "&lt;")  # names are plain text, but Markdown may contain HTML


@dataclass(frozen=True)
class ResultsTable:
    """The results table as strings, for any kind of page.

    Attributes:
        headings: one per column.
        rows: one list of strings per model, one string per column.
        sources: sources of the published metrics; superscripts in the table count them from 1.
        notes: explanations of the columns.
    """

    headings: list[str]
    rows: list[list[str]]
    sources: list[str]
    notes: list[str]


def results_table(
    results: pd.DataFrame,
    *,
    published: Mapping[str, Sequence[PublishedMetric]] | None = None,
    base: str = "base",
    validation: bool = False,
) -> ResultsTable:
    """Return the table of `results_markdown` as strings; arguments as there.

    Args:
        validation: whether a column next to the GAUC shows the GAUC on the validation set.
    """
    columns, sources = _columns_and_sources(results, published, base)
    if validation and "validation_gauc" in results and results["validation_gauc"].notna().any():
        first = dict(list(columns.items())[:2])
        columns = (
            first | {VALIDATION_HEADING: lambda row: format_number(row["validation_gauc"], ".4f")} | columns
        )
    rows = [[format_cell(row) for format_cell in columns.values()] for _, row in results.iterrows()]
    return ResultsTable(list(columns), rows, sources, column_notes(results, list(columns), base))


def describe_seeds(results: pd.DataFrame) -> str:
    """Return how many seeds the trained models have, such as "5 seeds" or "2 to 5 seeds"."""
    seeds = _trained_seeds(results)
    if seeds.max() == 1:
        return "1 seed"
    return f"{seeds.min()} seeds" if seeds.nunique() == 1 else f"{seeds.min()} to {seeds.max()} seeds"


def markdown_row(cells: Sequence[str]) -> str:
    """Return one row of a Markdown table; ``|``, ``<`` and line breaks in a cell are escaped and stay in it as text."""
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(' '.join(cell.splitlines()) for cell in escaped)} |"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> str:
    """Return a Markdown table whose first ``text_columns`` columns are aligned to the left and the others to the right."""
    alignments = [":---"] * text_columns + ["---:"] * (len(headings) - text_columns)
    lines = [headings, alignments, *rows]
    return "\n".join(markdown_row(line) for line in lines)


def _columns_and_sources(
    results: pd.DataFrame, published: Mapping[str, Sequence[PublishedMetric]] | None, base: str
) -> tuple[dict[str, CellFormatter], list[str]]:
    """Return the columns by heading, and the sources of the published metrics."""
    relevant = {key: metrics for key, metrics in (published or {}).items() if key in set(results["model"])}
    sources = list(dict.fromkeys(metric.source for metrics in relevant.values() for metric in metrics))
    return _columns(results, name_of(results, base), relevant, sources), sources


def _columns(
    results: pd.DataFrame,
    base_name: str | None,
    published: Mapping[str, Sequence[PublishedMetric]],
    sources: list[str],
) -> dict[str, CellFormatter]:
    """Return heading and cell format of each column that has a value."""
    columns: dict[str, CellFormatter] = {
        "Model": lambda row: str(row["name"]),
        "GAUC": lambda row: format_deviation(row["gauc"], row["gauc_std"]),
        "AUC": lambda row: format_deviation(row["auc"], row["auc_std"]),
        "LogLoss": lambda row: f"{row['logloss']:.4f}",
        **{
            heading: partial(_metric, name=name)
            for name, heading in GIVEN_HEADINGS.items()
            if name in results
        },
    }
    if base_name:
        columns["RelaImpr"] = lambda row: format_number(row["rela_impr"], "+.2f", "%")
        columns[f"Difference to {base_name} [95% interval]"] = format_difference
    second = _second_name(results, base_name)
    if second:
        columns[f"Difference to {second} [95% interval]"] = lambda row: format_difference(
            row, prefix="second_"
        )
    if _trained_seeds(results).nunique() > 1:
        columns["Seeds"] = lambda row: EMPTY if pd.isna(row["samples_per_second"]) else f"{row['seeds']:.0f}"
    if "oracle_share" in results:
        columns[ORACLE_HEADING] = lambda row: format_number(row["oracle_share"] * 100, ".1f", "%")
    if published:
        columns["Published"] = lambda row: _published(published.get(row["model"], ()), sources)
    columns["Training (s)"] = lambda row: format_number(row["train_seconds"], ",.1f")
    columns["Samples/s"] = lambda row: format_number(row["samples_per_second"], ",.0f")
    return columns


def _trained_seeds(results: pd.DataFrame) -> pd.Series:
    trained = results["samples_per_second"].notna()
    return results.loc[trained if trained.any() else slice(None), "seeds"].astype(int)


def _summary(
    results: pd.DataFrame, protocol: str, test_samples: int, test_users: int, *, curves_show_test: bool
) -> str:
    first = results.iloc[0]
    evaluated = "selected on validation data and evaluated" if curves_show_test else "evaluated once"
    curves = (
        " The learning curves show the test set after every epoch; nothing is selected by them."
        if curves_show_test
        else ""
    )
    return (
        f"Protocol `{protocol}`; {describe_seeds(results)} per trained model; {evaluated} on {test_samples:,} test samples of "
        f"{test_users:,} users. GAUC covers {first['user_coverage']:.1%} of the users and {first['impression_coverage']:.1%} of the "
        f"samples, those of users with both a positive and a negative sample.{curves}"
    )


def _table(results: pd.DataFrame, columns: Mapping[str, CellFormatter]) -> str:
    rows = [[format_cell(row) for format_cell in columns.values()] for _, row in results.iterrows()]
    return markdown_table(list(columns), rows)


def format_difference(row: pd.Series, *, prefix: str = "") -> str:
    """Return the difference of a model to another one, its interval, and whether it is significant.

    Args:
        row: row of a results table.
        prefix: prefix of the columns of the comparison.
    """
    difference, low, high, p = (
        row[f"{prefix}{name}"] for name in ("difference", "difference_low", "difference_high", "p_holm")
    )
    if pd.isna(difference):
        return EMPTY
    if pd.isna(low):
        return f"{difference:+.4f}"
    untested = pd.isna(p) and row["model"] != ORACLE
    mark = " *" if p < SIGNIFICANCE_LEVEL else USERS_ONLY_MARK if untested else ""
    return f"{difference:+.4f} [{low:+.4f}, {high:+.4f}]{mark}"


def _published(metrics: Sequence[PublishedMetric], sources: list[str]) -> str:
    cells = [
        f"{'AUC ' if metric.metric == 'auc' else ''}{metric.value:.4f}"
        f"{str(sources.index(metric.source) + 1).translate(SUPERSCRIPTS)}"
        for metric in metrics
    ]
    return ", ".join(cells) or EMPTY


def _footnotes(sources: list[str]) -> str:
    notes = [f"{str(i).translate(SUPERSCRIPTS)} {source}" for i, source in enumerate(sources, start=1)]
    return "  \n".join(notes)


def _metric(row: pd.Series, *, name: str) -> str:
    return format_number(row[name], ".4f")


def format_deviation(value: float, deviation: float) -> str:
    """Return a metric and its deviation over seeds, if it has one."""
    return f"{value:.4f}" if pd.isna(deviation) else f"{value:.4f} ± {deviation:.4f}"


def format_number(value: float, form: str, unit: str = "") -> str:
    """Return a number in a format of Python, or `EMPTY` for a missing one."""
    return EMPTY if pd.isna(value) else f"{value:{form}}{unit}"


def _second_name(results: pd.DataFrame, base_name: str | None) -> str | None:
    """Return the name of the second model that all are compared with; None if it is the base or there is none."""
    second = results["second"].iloc[0] if "second" in results else None
    name = None if pd.isna(second) else name_of(results, str(second))
    return None if name == base_name else name
