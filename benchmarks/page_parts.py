"""Markdown tables, and pages in which a benchmark replaces its own part."""

import pandas as pd


def markdown(frame: pd.DataFrame, names: dict[str, str]) -> str:
    """Format columns of a frame as a Markdown table; columns that the frame lacks are left out.

    Args:
        frame: values, one table row per row.
        names: heading of each column, in the order of the table.
    """
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


def with_machine(page: str, machine: str, sections: dict[str, str], order: list[str]) -> str:
    """Replace sections of one machine on a page that describes several machines.

    The part of a machine is between ``<!-- machine: NAME -->`` and ``<!-- /machine -->``. A machine without a part gets
    one in front of the other machines, or at the end of a page without machines. Parts of other machines stay.

    Args:
        page: Markdown of the whole page.
        machine: name of the machine, as `machine.this_machine` returns it.
        sections: Markdown of the new sections by heading, without the heading.
        order: headings in the order in which they appear.

    Raises:
        ValueError: a part has no end marker.
    """
    first, last = f"<!-- machine: {machine} -->", "<!-- /machine -->"
    if first not in page:
        before, marker, rest = page.partition("<!-- machine: ")
        page = f"{before.rstrip()}\n\n{first}\n## {machine}\n{last}\n\n{marker}{rest}".rstrip() + "\n"
    before, rest = page.split(first, 1)
    if last not in rest:
        raise ValueError(
            f"the marker {last} is missing after {first}; put it after the last section of this machine"
        )
    part, after = rest.split(last, 1)
    return f"{before}{first}\n{with_sections(part, sections, order)}{last}{after}"


def with_sections(part: str, sections: dict[str, str], order: list[str]) -> str:
    """Replace or add sections of a part of a page and keep all others.

    Args:
        part: Markdown whose sections begin with ``### heading``.
        sections: Markdown of the new sections by heading, without the heading.
        order: headings in the order in which they appear; sections with other headings follow, in their old order.
    """
    head, *old = part.strip().split("\n### ")
    kept = {heading: text.strip() for heading, _, text in (section.partition("\n") for section in old)}
    merged = kept | sections
    headings = [*(name for name in order if name in merged), *(name for name in merged if name not in order)]
    return "\n\n".join([head.strip(), *(f"### {name}\n\n{merged[name]}" for name in headings)]) + "\n"


def between_markers(text: str, marker: str, content: str) -> str:
    """Replace what is between ``<!-- marker -->`` and ``<!-- /marker -->`` in a text.

    Raises:
        ValueError: a marker is missing.
    """
    first, last = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    if first not in text or last not in text:
        raise ValueError(f"the markers {first} and {last} are missing; put them around the part to replace")
    before, rest = text.split(first, 1)
    return f"{before}{first}\n{content}\n{last}{rest.split(last, 1)[1]}"
