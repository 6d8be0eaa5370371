"""Messages for names on the command line that do not exist: pipelines, nodes, tags, namespaces and catalog entries."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kedro.pipeline import Pipeline

from deep_interest.errors import did_you_mean
from deep_interest.experiments import ABLATIONS, MODELS
from deep_interest.pipeline_registry import LazyPipelines

_KINDS = (
    "ingest",
    "samples",
    "report",
    *ABLATIONS,
    "tune",
    "tuned",
    "leaderboard",
    "worth",
    "delayed_clicks",
    "retrain",
    "score",
    "parity",
)
_OPTIONS = {
    "node_names": ("--nodes", "node"), "from_nodes": ("--from-nodes", "node"), "to_nodes": ("--to-nodes", "node"),
    "tags": ("--tags", "tag"), "namespaces": ("--namespaces", "namespace"),
    "from_inputs": ("--from-inputs", "catalog entry"), "to_outputs": ("--to-outputs", "catalog entry"),
}  # fmt: skip


def selection_message(options: Mapping[str, Any], registered: LazyPipelines) -> str | None:
    """Describe the first name in the options of ``kedro run`` that does not exist.

    Args:
        options: options by the names of Kedro's command: ``pipelines``, ``node_names``, ``tags``, ….
        registered: all pipelines by name.

    Returns:
        The message; None if all names exist.
    """
    names = _pipelines(options)
    for name in names:
        if registered.get(name) is None:
            return f"--pipelines: {unknown_pipeline(name, registered.all_names())}"
    selected = sum((registered[name] for name in names), Pipeline([]))
    known = {
        "node": [node.name for node in selected.nodes],
        "tag": sorted({tag for node in selected.nodes for tag in node.tags}),
        "namespace": _namespaces(selected),
        "catalog entry": sorted(selected.datasets()),
    }
    for option, (flag, kind) in _OPTIONS.items():
        for name in options.get(option) or ():
            if name not in known[kind]:
                return f"{flag}: {_unknown(name, kind, known[kind], names)}"
    if any(options.get(option) for option in _OPTIONS):
        return (
            f"the options select no node of {', '.join(names)}: no node has all of "
            f"{', '.join(flag for option, (flag, _) in _OPTIONS.items() if options.get(option))}; remove one of them"
        )
    return None


def missing_inputs(text: str, options: Mapping[str, Any], registered: LazyPipelines) -> str | None:
    """Describe why a selection of nodes cannot run: it needs what an unselected node passes on in memory.

    Args:
        text: text of Kedro's error.
        options, registered: as for `selection_message`.
    """
    inputs = set(re.findall(r"'([^']+)'", text.partition("}")[0]))
    nodes = sum((registered[name] for name in _pipelines(options)), Pipeline([])).nodes
    producers = [node.name for node in nodes if inputs & set(node.outputs)]
    if not producers:
        return None
    return (
        f"the selected nodes need {', '.join(sorted(inputs))}, which no file keeps; select the node that makes it too: "
        f"{', '.join(producers)}"
    )


def _pipelines(options: Mapping[str, Any]) -> list[str]:
    """Return the names of the pipelines of a run."""
    names = options.get("pipelines") or options.get("pipeline") or "__default__"
    return [names] if isinstance(names, str) else list(names)


def unknown_pipeline(name: str, names: Iterable[str]) -> str:
    """Say that a pipeline does not exist, which of its parts is wrong, and what is similar.

    Args:
        name: name of the pipeline.
        names: all pipelines that exist.
    """
    candidates = list(names)
    datasets = [known.removeprefix("ingest.") for known in candidates if known.startswith("ingest.")]
    parts = name.split(".")
    for family, block, what in (("abtest", "abtests", "test"), ("ope", "ope", "evaluation")):
        if parts[0] == family:
            names = [known for known in candidates if known.startswith(f"{family}.")]
            listed = f"the {what}s are {', '.join(names)}" if names else f"declare one under {block}"
            missing = ".".join(parts[1:]) or f"the name of the {what}"
            return f"{name} is not a pipeline: {missing} is not under {block}; {listed}{did_you_mean(name, names)}"
    kind = parts.pop(0) if parts[0] in _KINDS and len(parts) > 1 else None
    problem = ""
    if kind is not None or len(parts) > 1:
        if len(parts) > 2 or (parts[0] not in datasets and parts[-1] in datasets):
            problem = f": {parts[0]} is not a kind of pipeline"
        elif parts[0] not in datasets:
            problem = f": {parts[0]} is not a dataset"
        elif len(parts) > 1 and parts[1] not in MODELS:
            problem = f": {parts[1]} is not a model"
        elif kind in ("retrain", "score", "parity"):
            problem = f": {kind} needs a dataset with impressions, and a model that is trained in steps"
            candidates = [known for known in candidates if known.startswith(f"{kind}.")]
        elif kind == "delayed_clicks":
            problem = f": {kind} needs a dataset with impressions, split by day; its model is backtest.model"
        elif kind in ("tune", "tuned", "worth"):
            problem = f": {parts[-1]} has no options to tune"
    return f"{name} is not a pipeline{problem}; list them with `kedro registry list`{did_you_mean(name, candidates)}"


def _unknown(name: str, kind: str, known: list[str], names: Iterable[str]) -> str:
    depth = name.count(".") + 1
    tails = {".".join(candidate.split(".")[-depth:]): candidate for candidate in reversed(known)}
    close = [name] if name in tails else difflib.get_close_matches(name, tails, n=1, cutoff=0.8)
    similar = f"; did you mean {tails[close[0]]}?" if close else did_you_mean(name, known)
    listed = f"; the {kind}s are {', '.join(known)}" if len(known) <= 8 else ""
    return f"{name} is not a {kind} of the pipeline {', '.join(names)}{listed}{similar}"


def _namespaces(pipeline: Pipeline) -> list[str]:
    spaces = {tuple(str(node.namespace).split(".")) for node in pipeline.nodes if node.namespace}
    return sorted({".".join(parts[: depth + 1]) for parts in spaces for depth in range(len(parts))})
