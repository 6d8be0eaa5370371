"""``report.html``: everything about one dataset's table on one page of its own."""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

import pandas as pd

from deep_interest.evaluation.comparison import ORACLE
from deep_interest.evaluation.page import SIGNIFICANT, ResultsTable, results_table, seeds_of
from deep_interest.evaluation.published import PublishedMetric
from deep_interest.figures.plotly import original_text, panels_of
from deep_interest.reporting.sentences import sentences
from deep_interest.reporting.template import PAGE

TUNED_ON_OTHER_DATA = " (the search saw other samples, features or behaviours than the present ones)"
UNKNOWN = "unknown_"  # begins the name of a share among counts


@dataclass(frozen=True)
class Report:
    """What the page is made of.

    Attributes:
        title: heading.
        protocol: how samples were made and split.
        results: the table of `evaluation.comparison.compare`.
        summary: the table ``samples_summary``.
        figures: Plotly's JSON by name, in the order of the page; of `figures.plotly.plotly_figure`.
        settings: what each row was made with, by key; empty where it is not known.
        published: others' figures by key.
        base: key of the row that others are compared with.
    """

    title: str
    protocol: str
    results: pd.DataFrame
    summary: pd.DataFrame
    figures: Mapping[str, dict[str, Any]]
    settings: Mapping[str, dict[str, Any]]
    published: Mapping[str, Sequence[PublishedMetric]]
    base: str = "base"


def report_html(report: Report) -> str:
    """The page, with all that it needs inside: no file beside it and no network."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    table = results_table(report.results, published=report.published, base=report.base)
    panels = {
        f"{name}-{number}": panel
        for name, figure in report.figures.items()
        for number, panel in enumerate(panels_of(figure))
    }
    return Template(PAGE).substitute(
        title=html.escape(report.title),
        summary=html.escape(_summary(report)),
        sentences=_items(sentences(report.results, protocol=report.protocol, base=report.base)),
        table=_table(table, report.results),
        sources="<br>".join(
            f"{number} {html.escape(source)}" for number, source in enumerate(table.sources, start=1)
        ),
        notes=_items([note.replace("**", "").replace("`", "") for note in table.notes]),
        figures="\n".join(_figure(name, figure) for name, figure in report.figures.items()),
        data=_data(report.summary),
        made=_made(report),
        plotly=get_plotlyjs(),
        json=script_json(panels),
    )


def script_json(value: Any) -> str:
    """Return JSON that can be embedded in ``<script>``.

    No ``<`` is left: ``</script>`` would end the script, and ``<!--<script>`` would keep it from ending (HTML standard,
    "Restrictions for contents of script elements").
    """
    return json.dumps(value).replace("<", "\\u003c")


def _summary(report: Report) -> str:
    first = report.results.iloc[0]
    return (
        f"Protocol {report.protocol}; {seeds_of(report.results)} per trained model. Everything was chosen on validation data, "
        f"the test set was scored once. GAUC counts {first['user_coverage']:.1%} of the users, those with both a positive and a negative sample."
    )


def _items(texts: Sequence[str]) -> str:
    return "".join(f"<li>{html.escape(text)}</li>" for text in texts)


def _table(table: ResultsTable, results: pd.DataFrame) -> str:
    """The rows that are significantly above the base are shaded."""
    sure = (results["p_holm"] < SIGNIFICANT) & (results["difference"] > 0) & (results["model"] != ORACLE)
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in table.headings)
    rows = "".join(
        f'<tr class="{"sure" if marked else ""}">{_cells(row, table.headings)}</tr>'
        for row, marked in zip(table.rows, sure, strict=True)
    )
    return (
        f'<div class="wide"><table class="cards"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        '<p class="soft">* and shaded: significant at 5% after Holm\'s correction, shaded where above the base.</p>'
    )


def _cells(row: Sequence[str], headings: Sequence[str]) -> str:
    return "".join(
        f'<td data-label="{html.escape(heading)}"><div>{_parts(text)}</div></td>'
        for text, heading in zip(row, headings, strict=True)
    )


def _parts(text: str) -> str:
    """A cell's text; a value, its deviation and its interval break between them only."""
    for edge in (" ± ", " ["):
        if edge in text:
            first, rest = text.split(edge, 1)
            return f"<span>{html.escape(first)}</span> <span>{html.escape(edge.strip(' ') + ' ' * edge.endswith(' ') + rest)}</span>"
    return html.escape(text)


def _figure(name: str, figure: dict[str, Any]) -> str:
    layout = figure["layout"]
    least = {1: "100%", 2: "420px"}.get(layout["meta"]["panels"], "300px")
    places = "".join(
        f'<div>{_heading(panel)}<div id="{html.escape(name)}-{number}"></div></div>'
        for number, panel in enumerate(panels_of(figure))
    )
    note = html.escape(layout["meta"]["note"])
    return (
        f'<figure id="{html.escape(name)}"><h3>{html.escape(original_text(layout["title"]["text"]))}</h3><div class="panels" style="--least: {least}">{places}</div>'
        f"<figcaption>{note}</figcaption></figure>"
    )


def _heading(panel: dict[str, Any]) -> str:
    title = panel["layout"]["meta"]["title"]
    return f"<h4>{html.escape(title)}</h4>" if title else ""


def _data(summary: pd.DataFrame) -> str:
    """The counts; shares of unknown ids are the columns that begin so."""
    shown = summary.astype(object)
    for name in shown.columns[shown.columns.str.startswith(UNKNOWN)]:
        shown[name] = ["" if pd.isna(share) else f"{share:.2%}" for share in shown[name]]
    return (
        _plain_table(shown)
        + '<p class="soft">Users and items of a split are those of its rows, of "all" those of the behaviours. Unknown is the share '
        "of the rows whose user, item or field value is in no training sample or missing.</p>"
    )


def _plain_table(table: pd.DataFrame) -> str:
    headings = [str(column).replace("_", " ") for column in table]
    rows = [
        ["" if pd.isna(value) else _plain(value) for value in row] for row in table.itertuples(index=False)
    ]
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{_cells(row, headings)}</tr>" for row in rows)
    return f'<div class="wide"><table class="cards"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _made(report: Report) -> str:
    known = {key: settings for key, settings in report.settings.items() if settings}
    if not known:
        return "<p>The rows were trained before options were kept with them.</p>"
    first = next(iter(known.values()))
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    tuned = [
        f"{_name(report, key)}: {_values(found['tuned'])}{TUNED_ON_OTHER_DATA if found.get('tuned_on_other_data') else ''}"
        for key, found in known.items()
        if found["tuned"]
    ]
    parts = [
        f"<p>Versions: {html.escape(versions)}. Device: {html.escape(first['device'])}. Recipe: {html.escape(first['recipe'])}.</p>"
    ]
    if tuned:
        parts.append(f"<p>Tuned on validation data:</p><ul>{_items(tuned)}</ul>")
    for key, found in known.items():
        text = json.dumps({name: found[name] for name in ("seeds", "config", "training")}, indent=1)
        parts.append(
            f"<details><summary>{html.escape(_name(report, key))}</summary><pre>{html.escape(text)}</pre></details>"
        )
    return "\n".join(parts)


def _name(report: Report, key: str) -> str:
    """The papers' name of a row."""
    names = report.results.loc[report.results["model"] == key, "name"]
    return str(names.iloc[0]) if len(names) else key


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in values.items()
    )
