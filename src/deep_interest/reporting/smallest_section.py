"""The section of the report on the smallest model that is not worse than the best one."""

import html

import pandas as pd

from deep_interest.evaluation.smallest_model import NOT_CHEAPER, NOT_SHOWN, NOT_WORSE, REFERENCE
from deep_interest.reporting.html_tables import html_table

_UNITS = ("B", "kB", "MB", "GB", "TB")


def smallest_sentences(table: pd.DataFrame) -> list[str]:
    """Name the smallest and the fastest model that are not worse than the best one.

    Args:
        table: output of `evaluation.smallest_model.smallest_model_table`, with at least one row.
    """
    best, margin = table[table["verdict"] == REFERENCE].iloc[0], f"{table['margin'].iloc[0]:g}"
    smallest, fastest = (table[table[choice]].iloc[0] for choice in ("smallest", "fastest"))
    against = f"{margin} GAUC against {best['name']}, the best model on validation data"
    if smallest["model"] == fastest["model"] == best["model"]:
        return [
            f"No smaller or faster model is shown to lose less than {against}: the choice is {best['name']}."
        ]
    if smallest["model"] == best["model"]:
        first = f"No smaller model is shown to lose less than {against}."
    else:
        sizes = f"{format_bytes(smallest['bytes'])} instead of {format_bytes(best['bytes'])}"
        first = f"The smallest model that is not worse is {smallest['name']}: {sizes}, and a loss below {against}."
    if fastest["model"] == best["model"]:
        return [first, f"No faster model is shown to lose less than {margin} GAUC."]
    times = f"{fastest['microseconds']:.3g} instead of {best['microseconds']:.3g} µs per sample"
    return [first, f"The fastest model that is not worse is {fastest['name']}: {times}."]


def smallest_html(table: pd.DataFrame) -> str:
    """Return the sentences and the table of all models.

    Args:
        table: output of `evaluation.smallest_model.smallest_model_table`, with at least one row.
    """
    best, level = table[table["verdict"] == REFERENCE].iloc[0], float(table["level"].iloc[0])
    lines = [
        [
            str(row["name"]) + ("" if row["seeds"] else " (users only)"), format_bytes(row["bytes"]), f"{row['parameters']:,}",
            f"{row['microseconds']:.3g}", _difference(row), "" if pd.isna(row["p_holm"]) else f"{row['p_holm']:.3f}", _verdict(row),
        ]
        for _, row in table.iterrows()
    ]  # fmt: skip
    headings = ["Model", "Memory", "Parameters", "µs per sample", "Difference", "p", "Verdict"]
    sentences = " ".join(smallest_sentences(table))
    return (
        f"<p>{html.escape(sentences)}</p>"
        + html_table(headings, lines, caption=f"Models by memory, compared with {best['name']}")
        + f'<p class="soft">{html.escape(_notes(table, level))}</p>'
    )


def format_bytes(size: float) -> str:
    """Return a number of bytes in decimal units: ``1.24 MB``."""
    unit = 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"


def _difference(row: pd.Series) -> str:
    if pd.isna(row["difference"]):
        return ""
    return f"{row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"


def _verdict(row: pd.Series) -> str:
    words = {
        REFERENCE: "best on validation data", NOT_WORSE: "not worse", NOT_SHOWN: "may be worse",
        NOT_CHEAPER: "neither smaller nor faster",
    }  # fmt: skip
    chosen = [choice for choice in ("smallest", "fastest") if row[choice] and row["verdict"] != REFERENCE]
    return words[row["verdict"]] + (f"; {' and '.join(chosen)}" if chosen else "")


def _notes(table: pd.DataFrame, level: float) -> str:
    notes = (
        f"Not worse: a loss of {table['margin'].iloc[0]:g} GAUC (evaluation.margin) or more is rejected by a one-sided test at the {level:.0%} "
        "level, with Holm's correction over all models that are smaller or faster. May be worse: it is not rejected, which does not say that "
        f"the model is worse. Differences have {1 - 2 * level:.0%} intervals over users and seeds, before the correction. Memory: parameters and "
        "tables of one fit, without those that only training needs. µs per sample: scoring, the fastest of three repetitions on up to 4,096 test samples, with the "
        "run's device, threads and batch size."
    )
    if not table["seeds"].all():
        notes += " “Users only”: one of the two models has one seed, which cannot show how much another fit would differ."
    return notes
