"""``report.html``: everything about one dataset's results on one self-contained page."""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

import pandas as pd

from deep_interest.evaluation.comparison import ORACLE
from deep_interest.evaluation.page import (
    SIGNIFICANCE_LEVEL,
    SUPERSCRIPTS,
    ResultsTable,
    describe_seeds,
    results_table,
)
from deep_interest.evaluation.published import PublishedMetric
from deep_interest.evaluation.table_notes import name_of
from deep_interest.figures.plotly_marks import original_text
from deep_interest.figures.plotly_panels import split_panels
from deep_interest.reporting.sentences import sentences
from deep_interest.reporting.template import PAGE

TUNED_ON_OTHER_DATA = " (found on other samples, features or behaviours than the present ones)"
UNKNOWN_PREFIX = "unknown_"  # of the columns of `samples_summary` that are shares, not counts


@dataclass(frozen=True)
class Report:
    """Contents of the page.

    Attributes:
        title: heading of the page.
        protocol: key of the protocol that made and split the samples.
        results: table of `evaluation.comparison.compare`.
        summary: table ``samples_summary`` of the dataset.
        figures: output of `figures.plotly.plotly_figure` by name, in the order of the page.
        settings: options, seeds and versions by model key; empty for a model whose settings are unknown.
        published: published metrics by model key.
        base: key of the model that the others are compared with.
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
    """Return the page; it needs no other file and no network."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    table = results_table(report.results, published=report.published, base=report.base)
    panels = {
        f"{name}-{index}": panel
        for name, figure in report.figures.items()
        for index, panel in enumerate(split_panels(figure))
    }
    return Template(PAGE).substitute(
        title=html.escape(report.title),
        summary=html.escape(_summary(report)),
        sentences=_list_items(sentences(report.results, protocol=report.protocol, base=report.base)),
        table=_results_table(table, report),
        sources="<br>".join(
            f"{str(number).translate(SUPERSCRIPTS)} {html.escape(source)}"
            for number, source in enumerate(table.sources, start=1)
        ),
        notes=_list_items([note.replace("**", "").replace("`", "") for note in table.notes]),
        figures="\n".join(_figure(name, figure) for name, figure in report.figures.items()),
        data=_data(report.summary),
        settings=_settings(report),
        plotly=get_plotlyjs(),
        json=script_json(panels),
    )


def script_json(value: Any) -> str:
    """Return JSON that can be embedded in ``<script>``.

    It contains no ``<``: ``</script>`` would end the script, and ``<!--<script>`` would keep it from ending (HTML standard,
    "Restrictions for contents of script elements").
    """
    return json.dumps(value).replace("<", "\\u003c")


def _summary(report: Report) -> str:
    first = report.results.iloc[0]
    return (
        f"Protocol {report.protocol}; {describe_seeds(report.results)} per trained model. Models and options were selected on "
        f"validation data; the test set was evaluated once. GAUC covers {first['user_coverage']:.1%} of the users: those with both a "
        "positive and a negative sample."
    )


def _list_items(strings: Sequence[str]) -> str:
    return "".join(f"<li>{html.escape(string)}</li>" for string in strings)


def _results_table(table: ResultsTable, report: Report) -> str:
    """Return the results table; models that are significantly better than the base are shaded."""
    results = report.results
    better = (
        (results["p_holm"] < SIGNIFICANCE_LEVEL) & (results["difference"] > 0) & (results["model"] != ORACLE)
    )
    body = "".join(
        f'<tr class="{"better" if shaded else ""}">{_cells(row, table.headings)}</tr>'
        for row, shaded in zip(table.rows, better, strict=True)
    )
    table_html = _html_table(table.headings, body)
    base = name_of(results, report.base)
    if base is None or results["p_holm"].isna().all():
        return table_html
    return (
        f'{table_html}<p class="soft">* significant at the 5% level after Holm\'s correction. Shaded models are significantly better '
        f"than {html.escape(base)}.</p>"
    )


def _html_table(headings: Sequence[str], body: str) -> str:
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    return f'<div class="wide"><table class="cards"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(row: Sequence[str], headings: Sequence[str]) -> str:
    return "".join(
        f'<td data-label="{html.escape(heading)}"><div>{_breakable(value)}</div></td>'
        for value, heading in zip(row, headings, strict=True)
    )


def _breakable(value: str) -> str:
    """Return a cell's HTML, in which a line can break only between a value and its deviation or interval."""
    for separator in (" ± ", " ["):
        if separator in value:
            first, rest = value.split(separator, 1)
            return f"<span>{html.escape(first)}</span> <span>{html.escape(separator.lstrip() + rest)}</span>"
    return html.escape(value)


def _figure(name: str, figure: dict[str, Any]) -> str:
    layout = figure["layout"]
    panels = split_panels(figure)
    min_width = {1: "100%", 2: "420px"}.get(len(panels), "300px")
    elements = "".join(
        f'<div>{_panel_heading(panel)}<div id="{html.escape(name)}-{index}"></div></div>'
        for index, panel in enumerate(panels)
    )
    title = html.escape(original_text(layout["title"]["text"]))
    note = html.escape(layout["meta"]["note"])
    return (
        f'<figure id="{html.escape(name)}"><h3>{title}</h3><div class="panels" style="--min-width: {min_width}">{elements}</div>'
        f"<figcaption>{note}</figcaption></figure>"
    )


def _panel_heading(panel: dict[str, Any]) -> str:
    title = panel["layout"]["meta"]["title"]
    return f"<h4>{html.escape(title)}</h4>" if title else ""


def _data(summary: pd.DataFrame) -> str:
    """Return the table of counts, and a table of the shares of unknown values."""
    is_share = summary.columns.str.startswith(UNKNOWN_PREFIX)
    counts = _summary_table(summary.loc[:, ~is_share])
    note = '<p class="soft">Users and items of a split are those of its samples; those of "all" are those of the behaviours.</p>'
    if not is_share.any():
        return counts + note
    shares = summary.loc[:, is_share].dropna(how="all")
    percent = shares.map(lambda share: "" if pd.isna(share) else f"{share:.2%}")
    percent.columns = percent.columns.str.removeprefix(UNKNOWN_PREFIX)
    percent.insert(0, summary.columns[0], summary.loc[shares.index, summary.columns[0]])
    return (
        f"{counts}{note}<h3>Unknown values</h3>{_summary_table(percent)}"
        '<p class="soft">Share of the samples whose user, item or field value is missing or not among the training samples.</p>'
    )


def _summary_table(table: pd.DataFrame) -> str:
    headings = [str(column).replace("_", " ").replace("behaviors", "behaviours") for column in table]
    rows = [
        ["" if pd.isna(value) else _plain(value) for value in row] for row in table.itertuples(index=False)
    ]
    return _html_table(headings, "".join(f"<tr>{_cells(row, headings)}</tr>" for row in rows))


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _settings(report: Report) -> str:
    known = {key: settings for key, settings in report.settings.items() if settings}
    if not known:
        return "<p>The models were trained by a version that did not record their settings.</p>"
    first = next(iter(known.values()))
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    parts = [
        f"<p>Versions: {html.escape(versions)}. Device: {html.escape(first['device'])}. Engine: "
        f"{html.escape(first.get('engine', 'compiled'))}. Recipe: {html.escape(first['recipe'])}.</p>"
    ]
    tuned = [
        f"{_model_name(report, key)}: {_values(settings['tuned'])}"
        f"{TUNED_ON_OTHER_DATA if settings.get('tuned_on_other_data') else ''}"
        for key, settings in known.items()
        if settings["tuned"]
    ]
    if tuned:
        parts.append(f"<p>Options tuned on validation data:</p><ul>{_list_items(tuned)}</ul>")
    for key, settings in known.items():
        options = json.dumps({name: settings[name] for name in ("seeds", "config", "training")}, indent=1)
        parts.append(
            f"<details><summary>{html.escape(_model_name(report, key))}</summary><pre>{html.escape(options)}</pre></details>"
        )
    return "\n".join(parts)


def _model_name(report: Report, key: str) -> str:
    return name_of(report.results, key) or key


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in values.items()
    )
