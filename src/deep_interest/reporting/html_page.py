"""Pages that need no other file and no network: sections of HTML and interactive charts."""

import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any, NamedTuple

from deep_interest.figures.plotly_marks import original_text
from deep_interest.figures.plotly_panels import split_panels

SCRIPTS = ("charts.js", "tables.js", "din.js")  # of the page, in this order


class Section(NamedTuple):
    """A section of the page.

    Attributes:
        identifier: id of its heading, for links.
        heading: plain text.
        content: HTML.
    """

    identifier: str
    heading: str
    content: str


def html_page(
    *,
    title: str,
    summary: str,
    sections: Sequence[Section],
    figures: Mapping[str, dict[str, Any]],
    run: str = "",
    playable: Mapping[str, Any] | None = None,
) -> str:
    """Return the page.

    Args:
        title: heading of the page, plain text.
        summary: what the page is about, plain text.
        sections: sections in order.
        figures: output of `figures.plotly.plotly_figure` by name, drawn where `charts_html` names them.
        run: HTML of when and from which commit the page is made.
        playable: a DIN that readers can try (`playable_din.playable_din`).
    """
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    panels = {
        f"{name}-{index}": panel
        for name, figure in figures.items()
        for index, panel in enumerate(split_panels(figure))
    }
    return Template(_asset("report.html")).substitute(
        title=html.escape(title),
        summary=html.escape(summary),
        run=run,
        contents=_links([(section.identifier, section.heading) for section in sections]),
        sections="\n".join(
            f'<section class="{section.identifier}" aria-labelledby="{section.identifier}"><h2 id="{section.identifier}">{html.escape(section.heading)}</h2>\n'
            f"{section.content}</section>"
            for section in sections
        ),
        css=_asset("report.css"),
        plotly=get_plotlyjs(),
        json=script_json(panels),
        playable=f"const playable = {script_json(playable)};" if playable else "",
        script="\n".join(_asset(name) for name in SCRIPTS),
    )


def charts_html(figures: Mapping[str, dict[str, Any]]) -> str:
    """Return links to the charts of a page, and the charts."""
    titles = [(f"chart-{name}", _title(figure)) for name, figure in figures.items()]
    drawn = "\n".join(_figure(name, figure) for name, figure in figures.items())
    return f'<nav class="contents charts" aria-label="Charts">{_links(titles)}</nav>\n{drawn}'


def _title(figure: dict[str, Any]) -> str:
    return original_text(figure["layout"]["title"]["text"])


def _figure(name: str, figure: dict[str, Any]) -> str:
    panels = split_panels(figure)
    min_width = {1: "100%", 2: "420px"}.get(len(panels), "300px")
    title = html.escape(_title(figure))
    elements = "".join(
        f'<div>{_panel_heading(panel)}<div id="{html.escape(name)}-{index}" role="img" aria-label="{_alternative(title, panel)}"></div></div>'
        for index, panel in enumerate(panels)
    )
    note = html.escape(figure["layout"]["meta"]["note"])
    return (
        f'<figure id="chart-{html.escape(name)}"><h3>{title}</h3><div class="panels" style="--min-width: {min_width}">{elements}</div>'
        f"<figcaption>{note}</figcaption></figure>"
    )


def _alternative(title: str, panel: dict[str, Any]) -> str:
    """Return what screen readers read in place of a panel; the note below the chart says what it shows."""
    heading = html.escape(panel["layout"]["meta"]["title"])
    return f"{title}, {heading}" if heading else title


def _panel_heading(panel: dict[str, Any]) -> str:
    title = panel["layout"]["meta"]["title"]
    return f"<h4>{html.escape(title)}</h4>" if title else ""


def list_items(strings: Sequence[str]) -> str:
    """Return the items of a list; the strings are plain text."""
    return "".join(f"<li>{html.escape(string)}</li>" for string in strings)


def script_json(value: Any) -> str:
    """Return JSON that can be embedded in ``<script>``.

    It contains no ``<``: ``</script>`` would end the script, and ``<!--<script>`` would keep it from ending (HTML standard,
    "Restrictions for contents of script elements").
    """
    return json.dumps(value).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (
        resources.files("deep_interest.reporting")
        .joinpath("assets", name)
        .read_text(encoding="utf-8")
        .rstrip()
    )


def _links(targets: Sequence[tuple[str, str]]) -> str:
    """Return a list of links to parts of the page, each by its id and its name."""
    links = "".join(
        f'<li><a href="#{html.escape(identifier)}">{html.escape(name)}</a></li>'
        for identifier, name in targets
    )
    return f"<ul>{links}</ul>"
