"""A search as pictures: GAUC by trial, by each option, and how much each option matters."""

from typing import Any

import numpy as np
import pandas as pd

from deep_interest.figures.chart import Bars, Chart, Line, Panel, Points, Rule
from deep_interest.models.registry import MODELS

SYMBOL = {
    "training.mba": "λ (MBA)",
    "training.difacto": "λ (DiFacto)",
    "model.aux_weight": "α (auxiliary loss)",
}


def tuning_chart(trials: pd.DataFrame, tuned: dict[str, Any], *, model: str) -> Chart:
    """History, a slice for each option, and the options' importance where it is known.

    Args:
        trials: the table of `tuning.study.trial_table`.
        tuned: the best values, of `tuning.study.best_values`.
        model: the row's key.
    """
    finished = trials[trials["state"].isin(["complete", "pruned"])]
    panels = [_history(finished)]
    panels += [_slice(finished, name, best, tuned["ranges"][name]) for name, best in tuned["values"].items()]
    if tuned["importance"]:
        panels.append(_importance(tuned["importance"]))
    best = ", ".join(f"{_named(name)} {_value(value)}" for name, value in tuned["values"].items())
    return Chart(
        f"{MODELS[model].name}: {len(finished)} trials on validation GAUC", panels,
        note=f"Best {tuned['validation_gauc']:.4f} with {best}. A pruned trial shows its best evaluation before it was ended. The best "
        "of many trials on one validation set is a little lucky: its GAUC on the test set is expected to be lower.",
        numbers={"validation GAUC": tuned["validation_gauc"]},
    )  # fmt: skip


def _history(finished: pd.DataFrame) -> Panel:
    complete = finished[finished["state"] == "complete"]
    best = complete["validation_gauc"].cummax()
    marks = [
        *_by_state(finished, finished["trial"]),
        Line(complete["trial"].tolist(), best.tolist(), "best so far", colour=1),
    ]
    return Panel(marks, title="By trial", x="trial", y="validation GAUC")


def _slice(finished: pd.DataFrame, name: str, best: Any, found: dict[str, Any]) -> Panel:
    label = _named(name)
    if "choices" in found:
        choices = [str(value) for value in found["choices"]]
        place = finished[name].astype(str).map(choices.index)
        rule = Rule(choices.index(str(best)), "best", dashed=True, colour=1)
        return Panel([rule, *_by_state(finished, place)], title=label, x=label, x_ticks=choices)
    rule = Rule(float(best), "best", dashed=True, colour=1)
    return Panel(
        [rule, *_by_state(finished, finished[name])],
        title=label,
        x=label,
        y="validation GAUC",
        x_log=bool(found.get("log")),
    )


def _by_state(finished: pd.DataFrame, x: pd.Series) -> list[Points]:
    marks = []
    for state, colour in (("complete", 0), ("pruned", -1)):
        chosen = (finished["state"] == state) & np.isfinite(finished["validation_gauc"])
        if chosen.any():
            marks.append(
                Points(
                    x[chosen].tolist(),
                    finished.loc[chosen, "validation_gauc"].tolist(),
                    state,
                    colour=colour,
                    symbol=colour % 6,
                )
            )
    return marks


def _importance(shares: dict[str, float]) -> Panel:
    names = sorted(shares, key=lambda name: shares[name])
    bars = Bars(
        list(range(len(names))), [shares[name] for name in names], "share of the variance", lying=True
    )
    return Panel(
        [bars],
        title="Importance",
        x="share of GAUC's variance (fANOVA)",
        y_ticks=[_named(name) for name in names],
    )


def _named(name: str) -> str:
    return SYMBOL.get(name, name.split(".", 1)[1].replace("_", " "))


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
