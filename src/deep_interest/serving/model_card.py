"""The model card of a version: ``README.md`` in its folder, in the format of Hugging Face.

The first lines are YAML with the fields that the Hub reads (``library_name``, ``tags``, ``model-index``); the page says what the
version was trained on, with which options, how well it predicts the held-out day and for whom, and where its limits are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

NEEDED = frozenset(
    (
        "dataset",
        "model",
        "strategy",
        "parent",
        "days",
        "config",
        "training",
        "schema",
        "samples",
        "precision",
        "code",
        "verdict",
    )
)
"""What a manifest has if a retraining run has registered the version; others have no card."""
_PAPERS = {
    "din": ("1706.06978", "Zhou et al. 2018, Deep Interest Network"),
    "dien": ("1809.03672", "Zhou et al. 2019, Deep Interest Evolution Network"),
}
_METRICS = {"gauc": "GAUC", "auc": "AUC", "logloss": "log loss", "calibration": "calibration"}


def model_card(manifest: Mapping[str, Any]) -> str:
    """Return the card of a version as Markdown.

    Args:
        manifest: manifest of a version that a retraining run has registered, with its ``version``.
    """
    parts = [_front_matter(manifest), _title(manifest), _data(manifest), _options(manifest)]
    if manifest.get("verdict"):
        parts += [_quality(manifest), _calibration(manifest), _groups(manifest["verdict"].get("groups", []))]
    return "\n".join(part for part in [*parts, _limits(manifest)] if part)


def calibration_phrase(facts: Mapping[str, Any] | None) -> str:
    """Describe the calibration of a version from its manifest's ``calibration``, which older versions do not have."""
    if not facts:
        return "not calibrated"
    sampling = f"corrected for sampled negatives ({facts['negatives_kept']:.4g} kept)"
    if facts["method"] == "sampling":
        return sampling
    return "isotonic calibration" + (f", {sampling}" if facts["negatives_kept"] < 1 else "")


def _front_matter(manifest: Mapping[str, Any]) -> str:
    name, verdict = _name(manifest), manifest.get("verdict") or {}
    metrics = [
        {"type": key, "name": title, "value": verdict["challenger"][key]}
        for key, title in _METRICS.items()
        if verdict and verdict["challenger"][key] is not None
    ]
    result = {
        "task": {"type": "tabular-classification", "name": "click-through-rate prediction"},
        "dataset": {
            "type": manifest["dataset"], "name": manifest["dataset"], "split": manifest["days"]["held_out"],
        },
        "metrics": metrics,
    }  # fmt: skip
    fields: dict[str, Any] = {
        "library_name": "deep-interest",
        "tags": ["click-through-rate", "recommendation", manifest["model"]],
    }
    if metrics:
        fields["model-index"] = [{"name": name, "results": [result]}]
    return f"---\n{yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)}---\n"


def _name(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['dataset']}.{manifest['model']} {manifest['version']}"


def _title(manifest: Mapping[str, Any]) -> str:
    families = [paper for key, paper in _PAPERS.items() if manifest["model"].split("_")[0] == key]
    paper = "".join(
        f" It is of the family of [{title}](https://arxiv.org/abs/{number})." for number, title in families
    )
    code = manifest["code"]
    return (
        f"# {_name(manifest)}\n\nPredicts the probability that a user clicks a candidate, from the user's behaviours before the impression.{paper} "
        f"Made by deep-interest {code['deep_interest']} with PyTorch {code['torch']}; the file `manifest.json` has all facts.\n"
    )


def _data(manifest: Mapping[str, Any]) -> str:
    days, schema = manifest["days"], manifest["schema"]
    features = [
        [group, ", ".join(field["name"] for field in schema[group])]
        for group in ("item", "behavior", "profile", "context")
        if schema[group]
    ]
    origin = f"continues from `{manifest['parent']}`" if manifest["parent"] else "first version"
    return (
        f"## Data\n\nTrained on {_range(days['trained'])} ({manifest['strategy'].replace('_', ' ')}, {origin}). This fit: {manifest['samples']:,} "
        f"samples of {_range(days['fitted_on'])}, over all epochs. Held out: {days['held_out']}.\n\n"
        + _table(["features of", "names"], features)
    )


def _range(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}, {len(days)} days"


def _options(manifest: Mapping[str, Any]) -> str:
    precision = manifest["precision"]
    rows = [[key, str(value)] for key, value in sorted(manifest["config"].items())]
    training = [[key, str(value)] for key, value in sorted(manifest["training"].items())]
    size = f"{manifest['parameters']:,} parameters. " if "parameters" in manifest else ""
    return (
        f"## Options\n\n{size}Serves with {precision['tables']} tables and {precision['attention']} attention.\n\n"
        + _table(["model", "value"], rows)
        + "\n"
        + _table(["training", "value"], training)
    )


def _quality(manifest: Mapping[str, Any]) -> str:
    verdict, held_out = manifest["verdict"], manifest["days"]["held_out"]
    found, rows = verdict["challenger"], []
    for key, title in _METRICS.items():
        champion = verdict["champion"][key] if verdict["champion"] else None
        rows.append([title, _number(found[key]), _number(champion)])
    text = (
        f"## Quality\n\nOn {held_out}: {found['samples']:,} impressions; GAUC of {found['users']:,} users with both classes "
        f"({found['user_coverage']:.1%} of the users). Calibration is mean predicted CTR over observed CTR.\n\n"
        + _table(["", "this version", "champion before"], rows)
    )
    if gain := verdict["gain"]:
        other = "the champion before" if verdict["champion"] else "popularity"
        text += f"\nGAUC compared with {other}: {gain['difference']:+.4f} [{gain['low']:+.4f}, {gain['high']:+.4f}], interval over users.\n"
    checks = [
        [check["name"], _number(check["found"]), check["expected"], "yes" if check["passed"] else "**no**"]
        for check in verdict["checks"]
    ]
    decision = "passed" if verdict["promoted"] else "did not pass"
    return f"{text}\nThe version {decision} the gate:\n\n" + _table(
        ["check", "found", "expected", "passed"], checks
    )


def _calibration(manifest: Mapping[str, Any]) -> str:
    facts, segments = manifest.get("calibration"), manifest["verdict"].get("segments", [])
    day, phrase = manifest["days"]["held_out"], calibration_phrase(facts)
    text = f"## Calibration\n\n{phrase[0].upper()}{phrase[1:]}."
    if facts and facts["method"] == "isotonic":
        text += (
            f" The map was fitted on {facts['samples']:,} impressions ({facts['clicks']:,} clicks) of {facts['users']:,} users on {day}, half of "
            "the users by a hash. Calibration and log loss on this page are of the other half; GAUC is of all, because the map keeps the order."
        )
    if facts and facts["negatives_logged"] < 1:
        text += f" The log has {facts['negatives_logged']:.4g} of the impressions without a click: each counts {1 / facts['negatives_logged']:.4g} times."
    if not segments:
        return f"{text}\n"
    headings = ["impressions", "number", "observed CTR", "model", *(["calibrated"] if facts else [])]
    rows = [
        [
            of["name"], f"{of['samples']:,}", _number(of["observed"]), _ratio(of["model"]),
            *([_ratio(of["served"])] if facts else []),
        ]
        for of in segments
    ]  # fmt: skip
    return (
        f"{text}\n\nPredicted over observed CTR on {day} [95 % interval over users]; impressions of one day share what is special about it:\n\n"
        + _table(headings, rows)
    )


def _ratio(ratio: Sequence[float | None]) -> str:
    value, low, high = ratio
    interval = "" if low is None else f" [{low:.3f}, {high:.3f}]"
    return "–" if value is None else f"{value:.3f}{interval}"


def _groups(groups: Sequence[Mapping[str, Any]]) -> str:
    if not groups:
        return ""
    rows = [
        [
            of["name"], f"{of['samples']:,}", f"{of['users']:,}",
            "–" if of["gauc"] is None else f"{of['gauc']:.4f} [{of['low']:.4f}, {of['high']:.4f}]", _number(of["calibration"]),
        ]
        for of in groups
    ]  # fmt: skip
    return "## For whom\n\n" + _table(
        ["history", "impressions", "users with both classes", "GAUC [95 % interval]", "calibration"], rows
    )


def _limits(manifest: Mapping[str, Any]) -> str:
    days, length = manifest["days"], manifest["training"].get("max_len")
    seen = f" The model sees the newest {length} behaviours of a user." if length else ""
    return (
        f'## Limits\n\n- Users, items and values that did not occur by {days["trained"][-1]} share one code, "unknown".{_without_row(manifest)}{seen}\n'
        f"- The metrics are of one day, {days['held_out']}, and of one fit: intervals are over users, not over seeds or days.\n"
        "- Impressions that another model selected are the only evidence; how candidates that were never shown would do is not measured.\n"
        f"- Probabilities are those of {'the traffic of ' + days['held_out'] if manifest.get('calibration') else 'the log that the version was trained on'}. "
        "Compare the calibration before a use with other traffic.\n"
    )


def _without_row(manifest: Mapping[str, Any]) -> str:
    """Say that not every id has a row of its own, where `retraining.rows` has a rule for its field."""
    fields = ", ".join(manifest.get("rows", {}))
    return f" So do values of {fields} that were rare, or not seen lately." if fields else ""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(_cell(value) for value in line)} |\n" for line in lines)


def _cell(value: str) -> str:
    """Return text that cannot end a cell or begin an HTML element."""
    return value.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
