"""What more data, longer histories and wider embeddings are worth: sentences, the page, and the section of the report."""

import html
from collections.abc import Iterator

import pandas as pd

from deep_interest.evaluation.page import (
    SIGNIFICANCE_LEVEL,
    format_deviation,
    format_difference,
    markdown_table,
)
from deep_interest.evaluation.worth_table import format_value
from deep_interest.models.registry import MODELS
from deep_interest.reporting.html_tables import html_table

AXES = {
    "days": "Training days",
    "users": "Training users",
    "max_len": "History length",
    "embedding_dim": "Embedding width",
}
_UNITS = {"days": "training days", "users": "of the training users"}
_HOW = (
    "Each setting is the model with less or more of one thing. Training stops by validation GAUC; the test set, the same for all settings, "
    "is scored once with each fit. The curves describe: nothing is selected by them. Differences are those to the last row of a table, gains "
    "those to the row above, with 95 % intervals over users and seeds, paired by user. * significant at the 5 % level after Holm's correction "
    "for the differences of a table. Not significant does not mean equal: the interval says how large a difference may be."
)
_OF_DATA = {
    "days": "Fewer training days are the newest ones; histories and vocabularies are those of the whole log.",
    "users": "Training users are drawn for each seed; histories and vocabularies are those of the whole log.",
}


def worth_sentences(table: pd.DataFrame) -> list[str]:
    """Say what the last doubling of the log brought, and from which history length and width on nothing more is significant.

    Args:
        table: output of `evaluation.worth_table.worth_table` with the column ``model``.
    """
    return [
        sentence
        for axis, rows in table.groupby("axis", sort=False)
        for sentence in (_of_data if axis in _OF_DATA else _of_size)(str(axis), rows)
    ]


def worth_html(table: pd.DataFrame) -> str:
    """Return the section of ``report.html``.

    Args:
        table: output of `evaluation.worth_table.worth_table` with the column ``model``, with at least one row.
    """
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in worth_sentences(table))
    tables = [
        html_table(headings, lines, caption=f"{model_name(table)} by {headings[0].lower()}")
        for headings, lines in _tables(table)
    ]
    return f'<ul class="conclusions">{items}</ul>{"".join(tables)}<p class="soft">{html.escape(_notes(table))}</p>'


def worth_markdown(table: pd.DataFrame, *, title: str) -> str:
    """Return the page.

    Args:
        table: output of `evaluation.worth_table.worth_table` with the column ``model``.
        title: heading of the page.
    """
    parts = [
        f"# {' '.join(title.splitlines())}",
        "\n".join(f"- {sentence}" for sentence in worth_sentences(table)),
        "![GAUC by amount of data, history length and embedding width](curves.png)",
        *(markdown_table(headings, lines) for headings, lines in _tables(table)),
        _notes(table),
    ]
    return ("\n\n".join(part for part in parts if part) + "\n").replace("<", "&lt;")


def model_name(table: pd.DataFrame) -> str:
    """Return the name of the model that the curves are about."""
    return MODELS[str(table["model"].iloc[0])].name


def _of_data(axis: str, rows: pd.DataFrame) -> Iterator[str]:
    """Say what the largest step in data brought."""
    before, last = rows.iloc[-2], rows.iloc[-1]
    factor = last["value"] / before["value"]
    what = "The last doubling of the log" if abs(factor - 2) < 0.05 else f"{factor:.3g} times the log"
    smaller, larger = (format_value(axis, row["value"]) for row in (before, last))
    change = _change(last["gain"], last["gain_low"], last["gain_high"])
    significant = (
        ""
        if pd.isna(last["gain_low"]) or last["gain_low"] > 0 or last["gain_high"] < 0
        else ", which is not significant"
    )
    yield f"{what}, from {smaller} to {larger} {_UNITS[axis]}, brought {change}{significant}."


def _of_size(axis: str, rows: pd.DataFrame) -> Iterator[str]:
    """Say from which value on nothing more is significant."""
    name, smaller = AXES[axis].lower(), rows.iloc[:-1]
    largest = format_value(axis, rows.iloc[-1]["value"])
    if smaller["p_holm"].isna().any():
        reason = smaller["interval_note"].dropna()
        why = f": {reason.iloc[0]}" if len(reason) else ""
        yield f"From which {name} on nothing more is significant is unknown{why}."
        return
    significant = smaller["p_holm"] < SIGNIFICANCE_LEVEL
    worse = significant & (smaller["difference"] < 0)
    enough = smaller[~worse[::-1].cummax()[::-1]]  # neither it nor a larger one is significantly worse
    if enough.empty:
        row = smaller.iloc[-1]
        yield (
            f"The {name} {largest} is significantly better than {format_value(axis, row['value'])}, by {_change_to(row)}: an even larger one may "
            "bring more."
        )
    else:
        row = enough.iloc[0]
        yield (
            f"From the {name} {format_value(axis, row['value'])} on, nothing more is significant: {largest} instead of "
            f"{format_value(axis, row['value'])} brings {_change_to(row)}."
        )
    for _, row in smaller[significant & (smaller["difference"] > 0)].iterrows():
        change = _change(row["difference"], row["difference_low"], row["difference_high"])
        yield f"The {name} {format_value(axis, row['value'])} is significantly better than {largest}, by {change}."


def _change_to(row: pd.Series) -> str:
    """Return what the largest value brings in comparison with that of a row."""
    return _change(-row["difference"], -row["difference_high"], -row["difference_low"])


def _change(value: float, low: float, high: float) -> str:
    interval = (
        "no interval on so small a test set" if pd.isna(low) else f"95 % interval {low:+.4f} to {high:+.4f}"
    )
    return f"{value:+.4f} GAUC ({interval})"


def _tables(table: pd.DataFrame) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield headings and lines of the table of each axis."""
    for axis, rows in table.groupby("axis", sort=False):
        headings = [AXES[str(axis)], "Training samples", "GAUC", "Difference", "Gain", "Training (s)"]
        lines = [
            [
                format_value(str(axis), row["value"]), f"{row['samples']:,.0f}", format_deviation(row["gauc"], row["gauc_std"]),
                format_difference(row), _gain(row), f"{row['train_seconds']:.1f}",
            ]
            for _, row in rows.iterrows()
        ]  # fmt: skip
        yield headings, lines


def _gain(row: pd.Series) -> str:
    if pd.isna(row["gain"]):
        return ""
    if pd.isna(row["gain_low"]):
        return f"{row['gain']:+.4f}"
    return f"{row['gain']:+.4f} [{row['gain_low']:+.4f}, {row['gain_high']:+.4f}]"


def _notes(table: pd.DataFrame) -> str:
    """Return how the tables were made, and what they leave out."""
    omitted = table["interval_note"].dropna()
    why = [f"Intervals: {omitted.iloc[0]}."] if len(omitted) else []
    return " ".join([_HOW, *(_OF_DATA[axis] for axis in _OF_DATA if axis in set(table["axis"])), *why])
