"""Summary of a retraining run: JSON for programs, Markdown for people, exit codes for schedulers."""

import json
import logging
import urllib.request
from datetime import UTC, datetime
from http.client import HTTPMessage
from typing import TYPE_CHECKING, Any, Literal

from deep_interest.evaluation.page import markdown_row
from deep_interest.models.config import Precision
from deep_interest.retraining.gate import Verdict
from deep_interest.retraining.plan import Plan
from deep_interest.serving.model_card import calibration_phrase

if TYPE_CHECKING:
    from deep_interest.retraining.fitted import FittedModel

logger = logging.getLogger(__name__)

Outcome = Literal["promoted", "refused", "nothing_new", "bad_data", "busy", "failed"]
EXIT_CODES: dict[Outcome, int] = {
    "promoted": 0, "failed": 1, "nothing_new": 10, "refused": 11, "bad_data": 12, "busy": 13,
}  # fmt: skip
"""Exit codes of ``kedro run --pipelines=retrain.<dataset>.<model>``; Python and the command line also use 1 and 2."""


def run_summary(
    dataset: str, model: str, plan: Plan, fitted: "FittedModel", verdict: Verdict, version: str, *, rows: dict[str, Any] | None = None
) -> dict[str, Any]:  # fmt: skip
    """Summarise a run that reached the gate, as plain values; ``rows`` is that of `kept_rows.rows_summary`, if a field has a rule."""
    outcome: Outcome = "promoted" if verdict.promoted else "refused"
    return {
        **_head(dataset, model, outcome), "version": version, "champion_before": plan.parent,
        "strategy": plan.strategy,
        "days": {
            "new": list(plan.new), "late": list(plan.late), "changed": list(plan.changed), "trained_on": list(plan.train), "held_out": plan.held_out,
        },
        "cost": {"samples": fitted.samples, "seconds": round(fitted.seconds, 3)},
        **({"rows": rows} if rows else {}), **verdict.as_dict(),
    }  # fmt: skip


def early_end(dataset: str, model: str, outcome: Outcome, message: str) -> dict[str, Any]:
    """Summarise a run that ended before the gate."""
    return {**_head(dataset, model, outcome), "message": message}


def _head(dataset: str, model: str, outcome: Outcome) -> dict[str, Any]:
    return {
        "dataset": dataset, "model": model, "outcome": outcome, "exit_code": EXIT_CODES[outcome],
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


def summary_page(summary: dict[str, Any]) -> str:
    """Format a summary as a short Markdown page."""
    lines = [
        f"# {summary['dataset']}.{summary['model']}: {summary['outcome'].replace('_', ' ')}", "",
        f"{summary['finished']}, exit code {summary['exit_code']}.", "",
    ]  # fmt: skip
    if "message" in summary:
        return "\n".join([*lines, "```", summary["message"].replace("```", "'''"), "```", ""])
    days = summary["days"]
    lines += [
        f"Version `{summary['version']}`, strategy {summary['strategy'].replace('_', ' ')}, previous champion: "
        f"{summary['champion_before'] or 'none'}. New days: {', '.join(days['new'])}"
        + (f" (late: {', '.join(days['late'])})" if days["late"] else "")
        + f". Trained on {', '.join(days['trained_on'])} ({summary['cost']['samples']:,} samples, "
        f"{summary['cost']['seconds']:.1f} s), evaluated on {days['held_out']}.",
        *_changed(days["changed"]),
        "",
        "| | GAUC | AUC | log loss | calibration |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in ("challenger", "champion"):
        if summary[name]:
            values = [summary[name][key] for key in ("gauc", "auc", "logloss", "calibration")]
            lines.append(
                f"| {name} | {' | '.join('–' if value is None else f'{value:.4f}' for value in values)} |"
            )
    if summary["calibration"]:
        lines += ["", calibration_sentence(summary)]
    if summary["delayed_clicks"]:
        lines += ["", delayed_clicks_sentence(summary["delayed_clicks"])]
    if summary["precision"]:
        lines += ["", precision_sentence(summary["precision"]) + "."]
    lines += rows_table(summary.get("rows", {}))
    lines += ["", "| check | found | expected | passed |", "|---|---:|---|---|"]
    for check in summary["checks"]:
        found = "–" if check["found"] is None else f"{check['found']:.5g}"
        lines.append(
            markdown_row([check["name"], found, check["expected"], "yes" if check["passed"] else "**no**"])
        )
    return "\n".join([*lines, ""])


def rows_table(rows: dict[str, Any]) -> list[str]:
    """Return the lines of a table: how the embedding tables of the fields with a rule in ``retraining.rows`` have changed."""
    if not rows:
        return []
    lines = [
        "",
        "| rows of | champion | kept | evicted | admitted | now | below `min_count` | MB, champion | MB, now |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    counts = ("champion", "kept", "evicted", "admitted", "rows", "waiting")
    for name, of in rows.items():
        numbers = [f"{of[key]:,}" for key in counts]
        sizes = [f"{of[key]:.3g}" for key in ("megabytes_champion", "megabytes")]
        lines.append(markdown_row([name, *numbers, *sizes]))
    return [
        *lines,
        "",
        "MB: parameters in float32 with the state of the optimiser.",
    ]


def calibration_sentence(summary: dict[str, Any]) -> str:
    """Describe the calibration of a version, and its effect on all judged impressions, from a summary."""
    whole = summary["segments"][0] if summary["segments"] else {"model": (None,), "served": (None,)}
    before, after = ("–" if of[0] is None else f"{of[0]:.3f}" for of in (whole["model"], whole["served"]))
    judged = (
        " Half of the users of the day calibrate; log loss and calibration are of the other half."
        if summary["calibration"]["method"] == "isotonic"
        else ""
    )
    phrase = calibration_phrase(summary["calibration"])
    return f"{phrase[0].upper()}{phrase[1:]}: predicted over observed CTR {before} before, {after} after.{judged}"


def delayed_clicks_sentence(found: dict[str, Any]) -> str:
    """Describe how complete the labels of a run were, and how long it waited for clicks."""
    waited = f"waited {found['wait_hours']} h for clicks ({found['waiting']:,} impressions left out)"
    if "choice" in found:
        waited += f", chosen on {len(found['choice']['days'])} days"
    correction = "corrected" if found["corrected"] else "not corrected"
    return (
        f"Delayed clicks: half of the clicks come within {found['median_delay_hours']:.2g} h. Training {waited}; on its "
        f"{found['impressions']:,} impressions {found['clicks']:,} of an expected {found['clicks_expected']:,.0f} clicks had arrived, {correction}. "
        f"Judged on {found['judged']:,} impressions with {found['judged_clicks']:,} of an expected {found['judged_clicks_expected']:,.0f} clicks; "
        f"{found['not_judged']:,} younger ones are not judged."
    )


def precision_sentence(found: dict[str, Any]) -> str:
    """Describe the reduced precision of a version, and its loss in GAUC, from a verdict as plain values."""
    loss = found["loss"]
    cost = (
        "unknown"
        if loss is None
        else f"{loss['difference']:+.5f} ({loss['low']:+.5f} to {loss['high']:+.5f})"
    )
    return (
        f"Precision: {Precision(tables=found['tables'], attention=found['attention'])}, tables of {found['megabytes']:.3g} MB instead of "
        f"{found['megabytes_float32']:.3g} MB, loss in GAUC {cost}"
    )


def _changed(days: list[str]) -> list[str]:
    """Return the sentence about days whose files have changed since an earlier run used them."""
    if not days:
        return []
    return [
        "",
        f"The files of {', '.join(days)} have changed since an earlier run used them; this run uses the current files.",
    ]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Do not follow 3xx responses: the summary is only sent to the configured address."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def notify(url: str, summary: dict[str, Any], *, seconds: float) -> None:
    """Post a summary as JSON; any failure, including a redirect, is logged as a warning."""
    try:
        request = urllib.request.Request(
            url, json.dumps(summary).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        if request.type not in ("http", "https"):
            raise ValueError(f"expected an http(s) address, found {request.type}")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=seconds):
            pass
    except Exception as error:  # a failed notification must not fail the run
        logger.warning("retraining.webhook: the summary could not be posted (%s)", error)
