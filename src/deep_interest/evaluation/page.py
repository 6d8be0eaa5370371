"""The table of a dataset as a Markdown page to read: ours, what others have published, and what the columns mean."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from deep_interest.evaluation.comparison import ORACLE
from deep_interest.evaluation.published import PublishedMetric

EMPTY = "–"
SIGNIFICANT = 0.05  # of p-values after Holm's correction
USERS_ONLY = " †"  # marks an interval that leaves the seeds out
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def results_markdown(
    results: pd.DataFrame,
    *,
    title: str,
    protocol: str,
    test_samples: int,
    test_users: int,
    published: Mapping[str, Sequence[PublishedMetric]] | None = None,
    base: str = "base",
    watched: bool = False,
) -> str:
    """The page ``results.md``. The same arguments give the same text.

    Args:
        results: the table of `comparison.compare`, or the same read back from CSV.
        title: the heading.
        protocol: how samples were made and split.
        test_samples: rows of the test set.
        test_users: users of the test set, those with one class included.
        published: figures of others by model key, of this dataset and protocol (`published.published_metrics`).
        base: key of the model the others are compared with.
        watched: the learning curves beside the page show the test set too.
    """
    columns, sources, _ = _shown(results, published, base)
    notes = _notes(results, list(columns), base)
    parts = [
        f"# {' '.join(title.splitlines())}",
        _summary(results, protocol, test_samples, test_users, watched=watched),
        _table(results, columns),
        _footnotes(sources),
        "## How to read the table\n\n" + "\n".join(f"- {note}" for note in notes),
    ]
    page = "\n\n".join(part for part in parts if part) + "\n"
    return page.replace("<", "&lt;")  # names are text: a Markdown page may contain HTML


@dataclass(frozen=True)
class ResultsTable:
    """The table of the page as texts.

    Attributes:
        headings: of the columns.
        rows: a text for each column, a row for each model.
        sources: of the published figures, in the order of their numbers.
        notes: how to read the columns.
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
) -> ResultsTable:
    """The table of `results_markdown`, for other kinds of pages."""
    columns, sources, _ = _shown(results, published, base)
    rows = [[cell(row) for cell in columns.values()] for _, row in results.iterrows()]
    return ResultsTable(list(columns), rows, sources, _notes(results, list(columns), base))


def _shown(
    results: pd.DataFrame, published: Mapping[str, Sequence[PublishedMetric]] | None, base: str
) -> tuple[dict[str, "Cell"], list[str], str | None]:
    """Columns, sources of published figures, and the base's name."""
    shown = {key: figures for key, figures in (published or {}).items() if key in set(results["model"])}
    sources = list(dict.fromkeys(figure.source for figures in shown.values() for figure in figures))
    base_name = _name_of(results, base)
    return _columns(results, base_name, shown, sources), sources, base_name


def seeds_of(results: pd.DataFrame) -> str:
    """How many seeds the trained rows have, in words."""
    seeds = _trained_seeds(results)
    if seeds.max() == 1:
        return "1 seed"
    return f"{seeds.min()} seeds" if seeds.nunique() == 1 else f"{seeds.min()} to {seeds.max()} seeds"


def _trained_seeds(results: pd.DataFrame) -> pd.Series:
    trained = results["samples_per_second"].notna()
    return results.loc[trained if trained.any() else slice(None), "seeds"].astype(int)


def _summary(
    results: pd.DataFrame, protocol: str, test_samples: int, test_users: int, *, watched: bool
) -> str:
    first = results.iloc[0]
    tested = "selected on validation data, tested" if watched else "tested once"
    curves = (
        " The learning curves score the test set at every epoch; nothing is selected by them."
        if watched
        else ""
    )
    return (
        f"Protocol `{protocol}`, {tested} on {test_samples:,} samples of {test_users:,} users, "
        f"with {seeds_of(results)} per trained model; GAUC counts "
        f"{first['user_coverage']:.1%} of the users and {first['impression_coverage']:.1%} of the samples: "
        f"the users that have both a positive and a negative one.{curves}"
    )


Cell = Callable[[pd.Series], str]


def _columns(
    results: pd.DataFrame,
    base_name: str | None,
    published: Mapping[str, Sequence[PublishedMetric]],
    sources: list[str],
) -> dict[str, Cell]:
    """Heading and cell of each column that has something to show."""
    columns: dict[str, Cell] = {
        "Model": lambda row: str(row["name"]),
        "GAUC": lambda row: _with_deviation(row["gauc"], row["gauc_std"]),
        "AUC": lambda row: _with_deviation(row["auc"], row["auc_std"]),
        "LogLoss": lambda row: f"{row['logloss']:.4f}",
    }
    if base_name:
        columns["RelaImpr"] = lambda row: _number(row["rela_impr"], "+.2f", "%")
        columns[f"Difference to {base_name} [95% interval]"] = _difference
    second = _second_name(results, base_name)
    if second:
        columns[f"Difference to {second} [95% interval]"] = lambda row: _difference(row, prefix="second_")
    if _trained_seeds(results).nunique() > 1:
        columns["Seeds"] = lambda row: EMPTY if pd.isna(row["samples_per_second"]) else f"{row['seeds']:.0f}"
    if "oracle_share" in results:
        columns["Of the oracle's gain"] = lambda row: _number(row["oracle_share"] * 100, ".1f", "%")
    if published:
        columns["Published"] = lambda row: _published(published.get(row["model"], ()), sources)
    columns["Training, s"] = lambda row: _number(row["train_seconds"], ",.1f")
    columns["Samples/s"] = lambda row: _number(row["samples_per_second"], ",.0f")
    return columns


def _table(results: pd.DataFrame, columns: Mapping[str, Cell]) -> str:
    lines = [
        list(columns),
        [":---", *["---:"] * (len(columns) - 1)],
        *([cell(row) for cell in columns.values()] for _, row in results.iterrows()),
    ]
    return "\n".join(markdown_row(line) for line in lines)


def markdown_row(cells: Sequence[str]) -> str:
    """Return one row of a Markdown table; a name with ``|``, ``<`` or a line break stays within its cell, as text."""
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(' '.join(cell.splitlines()) for cell in escaped)} |"


def _difference(row: pd.Series, *, prefix: str = "") -> str:
    difference, low, high, p = (
        row[f"{prefix}{name}"] for name in ("difference", "difference_low", "difference_high", "p_holm")
    )
    if pd.isna(difference):
        return EMPTY
    if pd.isna(low):
        return f"{difference:+.4f}"
    mark = " *" if p < SIGNIFICANT else USERS_ONLY if pd.isna(p) and row["model"] != ORACLE else ""
    return f"{difference:+.4f} [{low:+.4f}, {high:+.4f}]{mark}"


def _published(figures: Sequence[PublishedMetric], sources: list[str]) -> str:
    cells = [
        f"{'AUC ' if figure.metric == 'auc' else ''}{figure.value:.4f}"
        f"{str(sources.index(figure.source) + 1).translate(SUPERSCRIPTS)}"
        for figure in figures
    ]
    return ", ".join(cells) or EMPTY


def _footnotes(sources: list[str]) -> str:
    notes = [f"{str(i).translate(SUPERSCRIPTS)} {source}" for i, source in enumerate(sources, start=1)]
    return "  \n".join(notes)


def _with_deviation(value: float, deviation: float) -> str:
    return f"{value:.4f}" if pd.isna(deviation) else f"{value:.4f} ± {deviation:.4f}"


def _number(value: float, form: str, unit: str = "") -> str:
    return EMPTY if pd.isna(value) else f"{value:{form}}{unit}"


def _name_of(results: pd.DataFrame, key: str) -> str | None:
    names = results.loc[results["model"] == key, "name"]
    return None if names.empty else str(names.iloc[0])


def _second_name(results: pd.DataFrame, base_name: str | None) -> str | None:
    """The name of the second row that all are compared with, unless it is the base itself."""
    second = results["second"].iloc[0] if "second" in results else None
    name = None if pd.isna(second) else _name_of(results, str(second))
    return None if name == base_name else name


def refusals(results: pd.DataFrame, base: str = "base") -> list[str]:
    """Why the table gives no intervals, or none over seeds, or no RelaImpr; one sentence each.

    Args:
        results: the table of `comparison.compare`, or the same read back from CSV.
        base: key of the model the others are compared with.
    """
    compared = results[results["model"] != ORACLE]
    said = []
    refused = compared["difference"].notna() & compared["difference_low"].isna()
    if refused.any():
        said.append(
            f"No interval, star or verdict is given: {compared.loc[refused, 'interval_note'].iloc[0]}."
        )
    single = _single_seed(compared)
    if single:
        said.append(
            f"{_list(single)}: one seed, so the interval is over users only and no difference is tested. Train with at least two "
            "seeds to compare models."
        )
    name = _name_of(results, base)
    if name and results["rela_impr"].isna().all():
        said.append(f"RelaImpr is left out: {_why_no_rela_impr(results, base, name)}.")
    return said


def _single_seed(compared: pd.DataFrame) -> list[str]:
    """Names of the models whose single fit keeps a difference from being tested."""
    untested = compared["difference_low"].notna() & compared["p_holm"].isna()
    return compared.loc[compared["seed_variance"].isna(), "name"].tolist() if untested.any() else []


def _why_no_rela_impr(results: pd.DataFrame, base: str, name: str) -> str:
    row = results[results["model"] == base].iloc[0]
    if pd.isna(row["gauc_low"]):
        return f"this test set cannot show that {name}'s GAUC ({row['gauc']:.4f}) differs from 0.5"
    return (
        f"{name}'s GAUC, {row['gauc']:.4f} with the 95% interval [{row['gauc_low']:.4f}, {row['gauc_high']:.4f}], is not above 0.5, "
        "and a gain relative to nothing has no meaning"
    )


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _notes(results: pd.DataFrame, headings: list[str], base: str) -> list[str]:
    """One plain sentence or two per column that is shown."""
    base_name = _name_of(results, base)
    notes = [
        "**GAUC**: each user's AUC weighted by her samples (DIN eq. 10). AUC is the chance that a positive sample "
        "scores above a negative one: 0.5 is guessing, 1 is perfect, a tie counts one half.",
        "**±**: standard deviation over seeds; none with one seed. **AUC**: over all samples at once, across users. "
        "**LogLoss**: lower is better.",
    ]
    if base_name:
        notes.append(
            f"**RelaImpr**: gain in GAUC over 0.5, relative to {base_name}'s (DIN eq. 11). **Difference**: GAUC minus "
            f"{base_name}'s, in brackets the 95% interval over users and seeds: how the difference varies with other users and "
            "other fits of both models. `*` where the difference is significant at 5% after Holm's correction for all rows of the "
            "column; without it the order of the two may be chance. `†` where a model has one seed: that interval is over users "
            "only, and nothing is tested."
        )
        notes += refusals(results, base)
    if sum(heading.startswith("Difference") for heading in headings) > 1:
        notes.append(
            "In the table of all models the second difference is to the baseline with the highest GAUC on the validation set."
        )
    if "Of the oracle's gain" in headings:
        notes.append(
            "**Of the oracle's gain**: the simulator knows the probability from which each label was drawn, and no "
            "model can beat it by more than chance; this is the share of its GAUC above 0.5 that is reached."
        )
    if "Published" in headings:
        notes.append(
            "**Published**: others' figures for this dataset and protocol, GAUC unless marked AUC. How they "
            "were come by stands with the source: some are the best of many looks at the test set, ours are one look."
        )
    notes.append(
        "Published figures of another protocol must not be compared with these, even if the dataset has the same "
        "name: other targets and other negatives make another task."
    )
    notes.append(
        "**Training, s** and **Samples/s**: mean over seeds on the machine at hand; no part of the ranking."
    )
    return notes
