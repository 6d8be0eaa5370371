"""The page of a simulated test: the papers' tables with ours, A/A test, regret, and the truth."""

from collections.abc import Mapping

import pandas as pd

from deep_interest.abtest.metrics import METRICS
from deep_interest.closed_loop.results import PAPER_METRICS, PUBLISHED, PUBLISHED_DIN
from deep_interest.evaluation.page import EMPTY, markdown_table

_HEADINGS = {"ctr": "CTR gain", "pay_per_click": "PPC gain", "rpm": "eCPM gain"}


def simulation_page(
    *, title: str, control: str, models: Mapping[str, str], results: pd.DataFrame, aa: pd.DataFrame, regret: pd.DataFrame,
    truth: pd.DataFrame,
) -> str:  # fmt: skip
    """Return the page ``simulation.md``; the same arguments give the same string.

    Args:
        title: heading of the page.
        control: name of the control.
        models: model of each arm; arms without a model are missing.
        results: `Readout.results` of the A/B test.
        aa: `Readout.results` of the A/A test; without rows if there was none.
        regret: output of `regret_table`.
        truth: output of `truth_table`; without rows if the worlds of single arms were not simulated.
    """
    parts = [
        f"# {' '.join(title.splitlines())}: what the simulator knows",
        "## The papers' A/B tests",
        markdown_table(
            ["Arm", *(f"{_HEADINGS[metric]}{of}" for metric in PAPER_METRICS for of in (" [95% interval]", ", paper"))],
            [_papers_row(arm, control, models, results) for arm in [control, *results["arm"].unique()]],
        ),
        "Papers: DIEN, Table 5 (Taobao, 2018-06-07 to 2018-07-12), and in brackets DIN, section 6 (2017-05 to 2017-06). Gains over the "
        "control, ours with CUPED.",
        "## Regret",
        markdown_table(
            [
                "Arm", "CTR", "oracle's", "lost", "RPM", "oracle's", "lost", "Clicks × bids lost", "Versions", "Ranked by popularity",
            ],
            [
                [
                    row["arm"], _percent(row["ctr"]), _percent(row["oracle_ctr"]), _percent(row["ctr_regret"]), f"{row['rpm']:.1f}",
                    f"{row['oracle_rpm']:.1f}", _percent(row["rpm_regret"]), _percent(row["value_regret"]),
                    str(row["versions"]), f"{row['fallback']:.0%}",
                ]
                for row in regret.to_dict("records")
            ],
        ),
        "Expected values. The oracle ranks the same candidates in the same visits, with the same histories, by their true click probabilities. "
        "Versions: those that ranked; popularity ranks until the gate has promoted one.",
    ]  # fmt: skip
    if len(aa):
        parts += [
            "## A/A test",
            markdown_table(
                ["Metric", "Arm", "Lift [95% interval]", "p (Holm)", "Variance removed by CUPED"],
                [
                    [
                        METRICS[row["metric"]].name, row["arm"], _lift(row), f"{row['p_holm']:.2g}",
                        EMPTY if pd.isna(row["variance_removed"]) else f"{row['variance_removed']:.0%}",
                    ]
                    for row in aa.to_dict("records")
                ],
            ),
            f"The ranker of {control} served all arms on these days: every difference is chance.",
        ]  # fmt: skip
    if len(truth):
        parts += [
            "## True lifts and interference",
            markdown_table(
                ["Metric", "Arm", "Lift in the test [95% interval]", "True lift [95% interval]", "Interference [95% interval]"],
                [_truth_row(row, results, control) for row in truth.to_dict("records")],
            ),
            "True lift: all users in the arm, compared with all users in the control, in worlds of their own. Interference: the users of an "
            "arm in the test, compared with the same users in the world in which everyone is in the arm. Expected clicks and revenue of "
            "the same users in both, so these intervals are narrow.",
        ]  # fmt: skip
    return "\n\n".join(parts).replace("<", "&lt;") + "\n"


def _papers_row(arm: str, control: str, models: Mapping[str, str], results: pd.DataFrame) -> list[str]:
    cells, published = [arm], PUBLISHED.get(models.get(arm, ""), {})
    for metric in PAPER_METRICS:
        row = results[(results["arm"] == arm) & (results["metric"] == metric)]
        cells.append("0.0%" if arm == control else _lift(row.iloc[0]) if len(row) else EMPTY)
        paper = f"{published[metric]:+.1%}" if metric in published else "0.0%" if arm == control else EMPTY
        if models.get(arm) == "din" and metric in PUBLISHED_DIN:
            paper += f" ({PUBLISHED_DIN[metric]:+.1%})"
        cells.append(paper)
    return cells


def _truth_row(row: Mapping[str, object], results: pd.DataFrame, control: str) -> list[str]:
    found = results[(results["arm"] == row["arm"]) & (results["metric"] == row["metric"])]
    return [
        METRICS[str(row["metric"])].name,
        str(row["arm"]),
        _lift(found.iloc[0]) if len(found) else EMPTY,
        EMPTY if row["arm"] == control else _lift(row, "true_lift", "true_low", "true_high"),
        _lift(row, "interference", "interference_low", "interference_high"),
    ]


def _lift(
    row: Mapping[str, object] | pd.Series, lift: str = "lift", low: str = "low", high: str = "high"
) -> str:
    if pd.isna(row[low]):
        return f"{float(str(row[lift])):+.1%}"
    return f"{float(str(row[lift])):+.1%} [{float(str(row[low])):+.1%}, {float(str(row[high])):+.1%}]"


def _percent(value: object) -> str:
    return f"{float(str(value)):.2%}"
