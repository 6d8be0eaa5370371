"""Tables of the HTML report: with a caption, headings for screen readers, and columns that can be sorted."""

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class HtmlRow:
    """A row of a table.

    Attributes:
        cells: one string per column; the first is the heading of the row.
        css_class: class of the row.
    """

    cells: Sequence[str]
    css_class: str = ""


def html_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str, css_class: str = "compact"
) -> str:
    """Return a table; all strings are plain text and are escaped.

    Args:
        headings: one per column.
        rows: one list of strings per row, one string per column; the first is the heading of the row.
        caption: what the table shows.
        css_class: class of the table.
    """
    head = "".join(f'<th scope="col">{html.escape(heading)}</th>' for heading in headings)
    body = "".join(_row(HtmlRow(row)) for row in rows)
    return _framed(
        f'<table class="{css_class}"><caption><span>{html.escape(caption)}</span></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>",
        caption,
    )


def sortable_table(
    headings: Sequence[str],
    rows: Sequence[HtmlRow],
    *,
    identifier: str,
    caption: str,
    sorted_by: str,
    essential: Sequence[str],
    lower_is_better: Sequence[str] = (),
    references: Sequence[HtmlRow] = (),
) -> str:
    """Return a table that ``assets/tables.js`` sorts by the column whose heading is pressed.

    Args:
        headings: one per column.
        rows: rows in the order of ``sorted_by``.
        identifier: id of the table on the page.
        caption: what the table shows.
        sorted_by: heading of the column by which the rows are sorted, highest first.
        essential: headings of the columns that a narrow screen shows; a button there shows the others.
        lower_is_better: headings of the columns that are first sorted with the lowest value on top.
        references: rows below the others that are not sorted.
    """
    more = [heading not in essential for heading in headings]
    head = "".join(
        _sortable_heading(
            heading,
            sort="descending" if heading == sorted_by else "none",
            more=is_more,
            lower_is_better=heading in lower_is_better,
        )
        for heading, is_more in zip(headings, more, strict=True)
    )
    body = f"<tbody>{''.join(_row(row, more) for row in rows)}</tbody>"
    if references:
        body += f'<tbody class="reference">{"".join(_row(row, more) for row in references)}</tbody>'
    button = (
        f'<button type="button" class="columns" aria-controls="{identifier}" aria-expanded="false">Show all columns</button>'
        if any(more)
        else ""
    )
    return button + _framed(
        f'<table id="{identifier}" class="sortable"><caption><span>{html.escape(caption)}</span></caption>'
        f"<thead><tr>{head}</tr></thead>{body}</table>",
        caption,
    )


def _framed(table: str, label: str) -> str:
    """Return a table in a frame that scrolls sideways, also by keyboard, where the table is wider than the page."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{html.escape(label)}">{table}</div>'


def _sortable_heading(heading: str, *, sort: str, more: bool, lower_is_better: bool) -> str:
    attributes = ' class="more"' if more else ""
    attributes += ' data-better="lower"' if lower_is_better else ""
    return f'<th scope="col" aria-sort="{sort}"{attributes}><button type="button">{html.escape(heading)}</button></th>'


def _row(row: HtmlRow, more: Sequence[bool] | None = None) -> str:
    css_class = f' class="{row.css_class}"' if row.css_class else ""
    first, *others = row.cells
    classes = [' class="more"' if is_more else "" for is_more in more[1:]] if more else [""] * len(others)
    cells = "".join(
        f"<td{name}>{_breakable(value)}</td>" for value, name in zip(others, classes, strict=True)
    )
    return f'<tr{css_class}><th scope="row">{html.escape(first).replace("+", "+<wbr>")}</th>{cells}</tr>'


def _breakable(value: str) -> str:
    """Return a cell's HTML, in which a line can break only between a value and its deviation or interval."""
    for separator in (" ± ", " ["):
        if separator in value:
            first, rest = value.split(separator, 1)
            return f"<span>{html.escape(first)}</span> <span>{html.escape(separator.lstrip() + rest)}</span>"
    return html.escape(value)
