"""The chart of a hyperparameter search: GAUC by trial and by option, and the importance of each option."""

from typing import Any

import numpy as np
import pandas as pd

from deep_interest.figures.chart import Bars, Chart, Line, Mark, Panel, Points, VerticalLine
from deep_interest.models.registry import MODELS

LABELS = {
    "training.mba": "λ (MBA)",
    "training.difacto": "λ (DiFacto)",
    "training.l2": "λ (L2)",
    "training.updated_rows": "rows of L2",
    "training.behavior_dropout": "dropout of behaviours",
    "model.aux_weight": "α (auxiliary loss)",
    "model.learning_rate": "learning rate of the trees",
}


def tuning_chart(trials: pd.DataFrame, tuned: dict[str, Any], *, model: str) -> Chart:
    """Draw the history of a search, one panel per option, and the options' importance where it is known.

    Args:
        trials: table of `tuning.study.trial_table`.
        tuned: best values, output of `tuning.study.best_values`.
        model: key of the model.
    """
    finished = trials[trials["state"].isin(["complete", "pruned"])]
    panels = [_history(finished)]
    panels += [_option(finished, name, best, tuned["ranges"][name]) for name, best in tuned["values"].items()]
    if tuned["importance"]:
        panels.append(_importance(tuned["importance"]))
    best = ", ".join(f"{option_label(name)} = {_value(value)}" for name, value in tuned["values"].items())
    return Chart(
        f"{MODELS[model].name}: validation GAUC of {len(finished)} trials", panels,
        note=f"Best validation GAUC {tuned['validation_gauc']:.4f} with {best}. A pruned trial is shown with its best evaluation before "
        "it was stopped. The best of many trials is partly luck: expect a lower GAUC on the test set.",
        metrics={"validation GAUC": tuned["validation_gauc"]},
    )  # fmt: skip


def _history(finished: pd.DataFrame) -> Panel:
    complete = finished[finished["state"] == "complete"]
    best = complete["validation_gauc"].cummax()
    marks: list[Mark] = [
        *_by_state(finished, finished["trial"]),
        Line(complete["trial"].tolist(), best.tolist(), "best so far", color=1),
    ]
    return Panel(marks, title="By trial", x_label="trial", y_label="validation GAUC")


def _option(finished: pd.DataFrame, name: str, best: Any, search_range: dict[str, Any]) -> Panel:
    label = option_label(name)
    if "choices" in search_range:
        choices = [_choice(value) for value in search_range["choices"]]
        positions = finished[name].map(lambda value: choices.index(_choice(value)))
        best_line = VerticalLine(choices.index(_choice(best)), "best", dashed=True, color=1)
        return Panel(
            [best_line, *_by_state(finished, positions)], title=label, x_label=label, x_ticks=choices
        )
    best_line = VerticalLine(float(best), "best", dashed=True, color=1)
    return Panel(
        [best_line, *_by_state(finished, finished[name])],
        title=label,
        x_label=label,
        y_label="validation GAUC",
        x_log=bool(search_range.get("log")),
    )


def _by_state(finished: pd.DataFrame, x: pd.Series) -> list[Points]:
    marks = []
    for state, color in (("complete", 0), ("pruned", -1)):
        shown = (finished["state"] == state) & np.isfinite(finished["validation_gauc"])
        if shown.any():
            values = finished.loc[shown, "validation_gauc"]
            marks.append(Points(x[shown].tolist(), values.tolist(), state, color=color, symbol=color % 6))
    return marks


def _importance(shares: dict[str, float]) -> Panel:
    names = sorted(shares, key=lambda name: shares[name])
    bars = Bars(list(range(len(names))), [shares[name] for name in names], "share of the variance")
    return Panel(
        [bars],
        title="Importance",
        x_label="share of GAUC's variance (fANOVA)",
        y_ticks=[option_label(name) for name in names],
    )


def option_label(name: str) -> str:
    """Return the name of an option in a chart, by its dotted name."""
    return LABELS.get(name, name.split(".", 1)[1].replace("_", " "))


def _choice(value: Any) -> str:
    """Return a choice as the table of trials writes it, where other trials may lack it: 32 is then 32.0, and ``[200, 80]`` is ``200-80``."""
    if isinstance(value, list | tuple):
        return "-".join(map(str, value))
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else _choice(value)
