"""Table and page of the backtest of delayed clicks."""

from collections.abc import Sequence

import pandas as pd

from deep_interest.retraining.delay_backtest import METRICS, ORACLE, Choice, Night, metric_sums
from deep_interest.retraining.paired_ratios import paired_difference

ALL_NIGHTS = "all"


def cost_table(nights: Sequence[Night], choices: Sequence[Choice]) -> pd.DataFrame:
    """Compare each choice with the oracle, on each day and on all of them.

    Returns:
        One row per day (and `ALL_NIGHTS`) and choice: ``day, choice``, for each metric its value, and ``<metric>_cost`` with
        ``<metric>_low`` and ``<metric>_high``, the paired difference to the oracle with its 95 % interval over users; and ``impressions``
        (per night), ``waiting``, ``clicks`` and ``clicks_expected`` of the training rows (`delayed_clicks.for_training`), and ``judged``
        impressions.
    """
    rows = []
    for day in [*dict.fromkeys(night.day for night in nights), ALL_NIGHTS]:
        own = [night for night in nights if day in (night.day, ALL_NIGHTS)]
        oracle = metric_sums(own, ORACLE.name)
        for choice in choices:
            sums = metric_sums(own, choice.name)
            facts = pd.DataFrame([night.facts[choice.name] for night in own]).mean()
            rows.append(
                {"day": day, "choice": choice.name, "judged": sum(len(night.labels) for night in own)}
                | {name: facts.get(name, float("nan")) for name in ("impressions", "waiting", "clicks", "clicks_expected")}
            )  # fmt: skip
            for name in METRICS:
                cost = paired_difference(sums[name], oracle[name])
                rows[-1] |= {
                    name: sums[name].value, f"{name}_cost": cost.difference, f"{name}_low": cost.low, f"{name}_high": cost.high,
                }  # fmt: skip
    return pd.DataFrame(rows)


def delay_page(costs: pd.DataFrame, rejected: dict[str, str]) -> str:
    """Format the costs over all nights as a Markdown page."""
    days = [day for day in costs["day"].unique() if day != ALL_NIGHTS]
    whole = costs[costs["day"] == ALL_NIGHTS]
    lines = [
        "# Backtest of delayed clicks",
        "",
        f"{len(days)} nights, evaluated on the days from {days[0]} to {days[-1]} with final labels; {int(whole['judged'].iloc[0]):,} predictions of "
        "each choice. On each night the models are trained with the clicks that had arrived; the oracle has the final labels, which no "
        "retraining can have. Costs are paired differences to the oracle, with 95 % intervals over users.",
        "",
        "| choice | GAUC | cost | log loss | cost | predicted over observed CTR | cost | training rows | left out | clicks known | expected |",
        "|---|---:|---|---:|---|---:|---|---:|---:|---:|---:|",
    ]
    for row in whole.itertuples():
        is_oracle = row.choice == ORACLE.name
        counts = "– | – | – | –"
        if not is_oracle:
            counts = f"{row.impressions:,.0f} | {row.waiting:,.0f} | {row.clicks:,.0f} | {row.clicks_expected:,.0f}"
        cells = [f"{getattr(row, name):.4f} | {'–' if is_oracle else _cost(row, name)}" for name in METRICS]
        lines.append(f"| {row.choice} | {' | '.join(cells)} | {counts} |")
    lines += [
        "",
        "Training rows and clicks are means over the nights; *expected* is the estimated number of clicks on these rows in the end.",
        "",
    ]
    lines += [f"Excluded by the data checks: {day} ({why})." for day, why in rejected.items()]
    return "\n".join([*lines, ""])


def _cost(row: object, name: str) -> str:
    cost, low, high = (getattr(row, f"{name}_{part}") for part in ("cost", "low", "high"))
    return f"{cost:+.4f} ({low:+.4f} to {high:+.4f})"
