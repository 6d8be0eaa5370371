"""The leaderboard of a dataset: its Markdown page, and its section of ``report.html``."""

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import pandas as pd

from deep_interest.evaluation.comparison import ORACLE, by_gauc
from deep_interest.evaluation.page import (
    EMPTY,
    describe_seeds,
    format_deviation,
    format_difference,
    format_number,
    markdown_table,
)
from deep_interest.evaluation.table_notes import join_names, name_of, omissions
from deep_interest.models.registry import MODELS
from deep_interest.reporting.html_tables import HtmlRow, sortable_table

COMPARISONS = {"": "BaseModel", "second_": "best simple model", "best_": "best model"}
"""Prefixes of the columns of a comparison, and what is compared with."""

Cell = Callable[[pd.Series], str]


@dataclass(frozen=True)
class Budget:
    """What every model may use.

    Attributes:
        n_trials: number of trials.
        processor_minutes: processor time after which no further trial is started; None for no limit.
    """

    n_trials: int
    processor_minutes: float | None


def leaderboard_markdown(
    results: pd.DataFrame,
    found: Mapping[str, Mapping[str, Any]],
    expected: pd.DataFrame,
    *,
    title: str,
    dataset: str,
    protocol: str,
    test_samples: int,
    test_users: int,
    budget: Budget,
) -> str:
    """Return the page of a leaderboard; the same arguments give the same string.

    Args:
        results: table of `tuning.leaderboard_table.leaderboard_table`, or the same read back from CSV.
        found: results of the searches by model key.
        expected: table of `tuning.expected_best.expected_best_table`.
        title: heading of the page.
        dataset: key of the dataset.
        protocol: key of the protocol that made and split the samples.
        test_samples: number of test samples.
        test_users: number of users in the test set.
        budget: what every model could use.
    """
    ranked = by_gauc(results)
    models = ranked[ranked["model"] != ORACLE]
    parts = [
        f"# {' '.join(title.splitlines())}",
        _summary(results, protocol, test_samples, test_users, budget),
        _known(ranked, found),
        _table(ranked, _result_columns(results)),
        *_verdicts(results),
        "![GAUC of each model](results.png)",
        "## Does the order depend on the budget?",
        *_expected(models, expected),
        "![Expected best validation GAUC by number of trials](expected_best.png)",
        "## What the options were worth",
        _options_table(models, found),
        _IMPORTANCE_NOTE,
        "![Importance of the options](importance.png)",
        "## Budget and cost",
        _table(models, _COST_COLUMNS),
        _COST_NOTE,
        "![GAUC and cost of the search](cost.png)",
        "## How to read the table",
        "\n".join(f"- {note}" for note in _notes(results, dataset)),
    ]
    return ("\n\n".join(part for part in parts if part) + "\n").replace("<", "&lt;")


def leaderboard_html(results: pd.DataFrame) -> str:
    """Return the section of ``report.html`` with the table of a leaderboard."""
    ranked, columns = by_gauc(results), _result_columns(results)
    rows = [HtmlRow([cell(row) for cell in columns.values()]) for _, row in ranked.iterrows()]
    is_model = (ranked["model"] != ORACLE).tolist()
    sentences = " ".join(_verdicts(results))
    most = results["trials"].max()
    trials = "" if pd.isna(most) else f" with at most {most:.0f} trials"
    return sortable_table(
        list(columns), [row for row, kept in zip(rows, is_model, strict=True) if kept], identifier="leaderboard-table",
        caption=f"Every model tuned on validation data{trials}, then scored once on the test set. Press a heading to "
        "sort by its column.",
        sorted_by="GAUC", essential=["Model", "GAUC", *[name for name in columns if name.startswith("Difference")][:1]],
        lower_is_better=["LogLoss"], references=[row for row, kept in zip(rows, is_model, strict=True) if not kept],
    ) + f"<p>{html.escape(sentences)}</p>"  # fmt: skip


def _summary(results: pd.DataFrame, protocol: str, test_samples: int, test_users: int, budget: Budget) -> str:
    first = results.iloc[0]
    limit = (
        ""
        if budget.processor_minutes is None
        else f", or as many as fit into {budget.processor_minutes:g} minutes of processor time"
    )
    return (
        f"Every model has {budget.n_trials} trials{limit}; those without options to tune have none. The options with the highest "
        f"validation GAUC were fitted with {describe_seeds(results)} and scored once on the test set.\n\n"
        f"Protocol `{protocol}`; {test_samples:,} test samples of {test_users:,} users. GAUC covers {first['user_coverage']:.1%} of the "
        f"users and {first['impression_coverage']:.1%} of the samples, those of users with both a positive and a negative sample."
    )


def _known(models: pd.DataFrame, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the sentence that names the models without trials of their own, whose options an earlier leaderboard has found."""
    recipes = {key: found[key]["known"] for key in models["model"] if "known" in found.get(key, {})}
    if not recipes:
        return ""
    names = [str(row["name"]) for _, row in models.iterrows() if row["model"] in recipes]
    return (
        f"{join_names(names)} {'have' if len(names) > 1 else 'has'} the options that an earlier leaderboard has found (recipe "
        f"`{next(iter(recipes.values()))}`), and no trials here."
    )


def _result_columns(results: pd.DataFrame) -> dict[str, Cell]:
    columns: dict[str, Cell] = {
        "Model": lambda row: str(row["name"]),
        "Validation GAUC": lambda row: format_number(row["validation_gauc"], ".4f"),
        "GAUC": lambda row: format_deviation(row["gauc"], row["gauc_std"]),
        "AUC": lambda row: format_deviation(row["auc"], row["auc_std"]),
        "LogLoss": lambda row: f"{row['logloss']:.4f}",
    }
    compared: list[str] = []
    for prefix, role in COMPARISONS.items():
        name = _compared_with(results, prefix)
        if name is not None and name not in compared:
            compared.append(name)
            described = name if prefix == "" else f"{name}, the {role}"
            columns[f"Difference to {described} [95% interval]"] = partial(format_difference, prefix=prefix)
    if "oracle_share" in results:
        columns["Share of the oracle's gain"] = lambda row: format_number(
            row["oracle_share"] * 100, ".1f", "%"
        )
    return columns


def _compared_with(results: pd.DataFrame, prefix: str) -> str | None:
    """Return the name of the model that the columns of a comparison refer to; None if there is none."""
    key = "base" if prefix == "" else results.get(prefix.removesuffix("_"), pd.Series([None])).iloc[0]
    return None if pd.isna(key) else name_of(results, str(key))


def _verdicts(results: pd.DataFrame) -> list[str]:
    """Return the sentence that says whether the best model is better than the best simple one."""
    best, simple = _compared_with(results, "best_"), _compared_with(results, "second_")
    if best is None or simple is None:
        return []
    if best == simple:
        return [f"The best model by validation GAUC is a simple one: {best}."]
    row = results[results["model"] == results["best"].iloc[0]].iloc[0]
    difference = format_difference(row, prefix="second_").removesuffix(" *")
    if pd.isna(row["second_difference_low"]):
        verdict = "this test set is too small for an interval"
    elif row["second_p_holm"] < 0.05:
        verdict = "significant at the 5% level after Holm's correction"
    else:
        verdict = "not significant at the 5% level after Holm's correction"
    return [
        f"By validation GAUC, {best} is the best model and {simple} the best simple one. On the test set they differ by {difference}: {verdict}."
    ]


def _expected(models: pd.DataFrame, expected: pd.DataFrame) -> list[str]:
    if expected.empty:
        return ["No model has options to tune."]
    most = int(expected["trials"].max())
    counts = sorted({count for count in (1, 2, 4, 8, 16, 32, 64) if count < most} | {most})
    curves = expected.pivot(index="model", columns="trials", values="expected")
    names = {model: MODELS[model].name for model in curves.index}
    kept = curves.ffill(axis=1)  # a model keeps the value of its last trial, as in the chart
    shown = curves.loc[kept.sort_values(most, ascending=False, kind="stable").index, counts]
    rows = [
        [names[model], *(format_number(value, ".4f") for value in row)]
        for model, row in zip(shown.index, shown.to_numpy(), strict=True)
    ]
    headings = ["Model", *(f"{count} trial{'s' if count > 1 else ''}" for count in counts)]
    return [
        "Expected best validation GAUC after so many trials, over all orders in which a model's trials could have been run (Dodge et al. "
        f"2019, without replacement). {_leaders(kept, names)} {_swapped(curves, counts)}",
        markdown_table(headings, rows),
    ]


def _leaders(curves: pd.DataFrame, names: Mapping[str, str]) -> str:
    """Say which model leads with how many trials."""
    leaders = [str(curves[count].idxmax()) for count in curves]
    if len(set(leaders)) == 1:
        return f"{names[leaders[0]]} leads at every number of trials."
    begins = [n for n, leader in enumerate(leaders) if n == 0 or leader != leaders[n - 1]]
    ranges = [
        f"{names[leaders[begin]]} with {begin + 1}{f' to {end}' if end > begin + 1 else ''}"
        for begin, end in pairwise([*begins, len(leaders)])
    ]
    return f"The leading model depends on the number of trials: {join_names(ranges)}."


def _swapped(curves: pd.DataFrame, counts: list[int]) -> str:
    """Say how many pairs of models have another order at half of the trials than at all of them."""
    half = max(1, counts[-1] // 2)
    known = curves[[half, counts[-1]]].dropna().to_numpy()
    pairs = len(known) * (len(known) - 1) // 2
    if not pairs:
        return ""
    differences = known[:, None] - known[None]
    swapped = int((differences[..., 0] * differences[..., 1] < 0).sum()) // 2
    return f"Between {half} and {counts[-1]} trials, {swapped} of {pairs} pairs of models change their order."


def _options_table(models: pd.DataFrame, found: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for model, name in zip(models["model"], models["name"], strict=True):
        result = found[model]
        values = ", ".join(f"{_short(option)} {_value(value)}" for option, value in result["values"].items())
        shares = sorted(result["importance"].items(), key=lambda share: -share[1])[:3]
        important = ", ".join(f"{_short(option)} {share:.0%}" for option, share in shares)
        rows.append([str(name), values or "nothing to tune", important or EMPTY])
    return markdown_table(["Model", "Best options", "Most important options"], rows, text_columns=3)


_IMPORTANCE_NOTE = "Importance: share of the variance of the validation GAUC over a model's complete trials that an option explains (fANOVA)."
_COST_NOTE = (
    "The first trial has the options of the recipe, or the nearest values of the search space. Gain: best validation GAUC minus that of "
    "the first trial; the best of many trials is partly luck. Processor time is that of the finished trials, evaluation included; fits are "
    "seconds of training of all seeds together."
)


def _gain(row: pd.Series) -> str:
    return format_number(row["best_trial_gauc"] - row["first_trial_gauc"], "+.4f")


_COST_COLUMNS: dict[str, Cell] = {
    "Model": lambda row: str(row["name"]),
    "Trials": lambda row: format_number(row["trials"], ".0f"),
    "Pruned": lambda row: format_number(row["pruned"], ".0f"),
    "First trial": lambda row: format_number(row["first_trial_gauc"], ".4f"),
    "Best trial": lambda row: format_number(row["best_trial_gauc"], ".4f"),
    "Gain": _gain,
    "Search (processor minutes)": lambda row: format_number(row["search_processor_seconds"] / 60, ",.1f"),
    "Fits (s)": lambda row: format_number(row["refit_seconds"], ",.1f"),
}


def _notes(results: pd.DataFrame, dataset: str) -> list[str]:
    return [
        "**GAUC**: mean of the users' AUCs, weighted by their numbers of samples; **±**: standard deviation over seeds.",
        "**Validation GAUC**: mean over seeds; it selects the options, the epoch, the best model and the best simple model.",
        "**Difference**: GAUC minus that of the model in the heading, with its 95% interval over users and seeds. `*` marks a difference "
        "that is significant at the 5% level after Holm's correction for all models in the column, `†` one that is not tested because a "
        "model has one seed. The uncertainty of the search itself, which other trials would have found other options, is not included.",
        *omissions(results),
        f"Train all models with these options: `kedro run --pipelines={dataset} --params=training.tuned=leaderboard`. `recipe.yml` has them as "
        "a recipe, `trials.csv` has every trial.",
    ]  # fmt: skip


def _table(rows: pd.DataFrame, columns: Mapping[str, Cell]) -> str:
    return markdown_table(
        list(columns), [[cell(row) for cell in columns.values()] for _, row in rows.iterrows()]
    )


def _short(option: str) -> str:
    """Return an option without its block: a model has no two searched options of the same name."""
    return f"`{option.split('.', 1)[1]}`"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "-".join(map(str, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
