"""Markdown tables, and pages of which a benchmark rewrites its own part."""

import pandas as pd


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


def with_sections(page: str, sections: dict[str, str], order: list[str]) -> str:
    """A page with some of its sections replaced, or added, and the others kept.

    Args:
        page: Markdown, whose sections begin with ``## heading``.
        sections: text of the new sections, heading included, by heading.
        order: headings in the order of the page; sections of other headings are dropped.
    """
    head, *old = page.strip().split("\n## ")
    kept = {text.split("\n", 1)[0]: f"## {text.strip()}" for text in old}
    texts = kept | sections
    return "\n\n".join([head.strip(), *(texts[heading] for heading in order if heading in texts)]) + "\n"


def between_markers(text: str, marker: str, content: str) -> str:
    """A text with what is between ``<!-- marker -->`` and ``<!-- /marker -->`` replaced.

    Raises:
        ValueError: a marker is missing.
    """
    first, last = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    if first not in text or last not in text:
        raise ValueError(
            f"the markers {first} and {last} are missing; put them around the part to be replaced"
        )
    before, rest = text.split(first, 1)
    return f"{before}{first}\n{content}\n{last}{rest.split(last, 1)[1]}"
