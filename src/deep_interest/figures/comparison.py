"""Charts of a results table: GAUC by model, by seed and by group of samples, training speed, calibration."""

import numpy as np
import pandas as pd

from deep_interest.evaluation.comparison import ORACLE, by_gauc
from deep_interest.figures.chart import Chart, Line, Panel, Points, VerticalLine


def results_chart(results: pd.DataFrame, *, title: str, base: str = "base") -> Chart:
    """Draw GAUC by model as a dot plot, best model on top.

    A dot is the mean over seeds, its bar ± one standard deviation over seeds, and the number at the right its value. Vertical
    lines mark the GAUC of the base model and, dashed, of the oracle.

    Args:
        results: table of `evaluation.comparison.compare`, or the same read back from CSV.
        title: heading of the chart.
        base: key of the model that the others are compared with.
    """
    results = by_gauc(results)
    models = results[results["model"] != ORACLE]
    references = [
        VerticalLine(
            row.gauc, f"{row.name} {row.gauc:.4f}", dashed=key == ORACLE, color=1 if key == ORACLE else -1
        )
        for key in (base, ORACLE)
        for row in results[results["model"] == key].itertuples()
    ]
    several_seeds = (models["seeds"] > 1).any()
    dots = Points(
        models["gauc"].tolist(),
        list(range(len(models))),
        "mean ± std over seeds" if several_seeds else "one seed",
        error=models["gauc_std"].fillna(0).tolist() if several_seeds else None,
        hover=[f"{row.name}: {row.gauc:.4f}" for row in models.itertuples()],
    )
    panel = Panel(
        [*references, dots], x_label="GAUC", y_ticks=models["name"].tolist(), y_reversed=True,
        right_labels=[f"{value:.4f}" for value in models["gauc"]],
    )  # fmt: skip
    return Chart(title, [panel], row_height=70 + 30 * len(models))


def seeds_chart(results: pd.DataFrame, seed_gaucs: pd.DataFrame, *, title: str) -> Chart:
    """Draw the GAUC of every seed by model, to show how much two training runs of the same model differ.

    Args:
        results: table of `evaluation.comparison.compare`.
        seed_gaucs: columns ``model``, ``seed``, ``gauc``; one row per model and seed.
        title: heading of the chart.
    """
    models = by_gauc(results[results["model"] != ORACLE])
    position = {key: index for index, key in enumerate(models["model"])}
    shown = seed_gaucs[seed_gaucs["model"].isin(position)]
    dots = Points(
        shown["gauc"].tolist(), [position[key] for key in shown["model"]], "one seed",
        hover=[f"{row.model}, seed {row.seed}: {row.gauc:.4f}" for row in shown.itertuples()],
    )  # fmt: skip
    deviations = ["" if pd.isna(value) else f"± {value:.4f}" for value in models["gauc_std"]]
    panel = Panel(
        [dots], x_label="GAUC", y_ticks=models["name"].tolist(), right_labels=deviations, y_reversed=True
    )
    return Chart(
        title, [panel], row_height=70 + 30 * len(models),
        note="Each dot is one training run; the number at the right is the standard deviation over seeds. If the dots of two models "
        "overlap, one seed each cannot separate them.",
    )  # fmt: skip


def validation_chart(results: pd.DataFrame, *, title: str) -> Chart:
    """Draw the GAUC on the validation set and on the test set by model, best model on top.

    Args:
        results: table of `evaluation.comparison.compare`; models without a validation GAUC are omitted.
        title: heading of the chart.
    """
    models = by_gauc(results[(results["model"] != ORACLE) & results["validation_gauc"].notna()])
    positions = list(range(len(models)))
    marks = [
        Points(
            models[column].tolist(), positions, name, color=color, symbol=symbol,
            hover=[f"{row['name']}, {name}: {row[column]:.4f}" for _, row in models.iterrows()],
        )
        for column, name, color, symbol in (("validation_gauc", "validation", -1, 1), ("gauc", "test", 0, 0))
    ]  # fmt: skip
    changes = (models["gauc"] - models["validation_gauc"]).tolist()
    panel = Panel(
        marks, x_label="GAUC", y_ticks=models["name"].astype(str).tolist(), y_reversed=True,
        right_labels=[f"{change:+.4f}" for change in changes],
    )  # fmt: skip
    return Chart(
        title, [panel], row_height=70 + 30 * len(models),
        note="The number at the right is test minus validation. Parameters are selected on the validation set, so its GAUC is "
        "optimistic; the two sets also have other users or days. A model that loses much more than the others fits the validation set "
        "too closely.",
    )  # fmt: skip


def speed_chart(results: pd.DataFrame, *, title: str) -> Chart:
    """Draw GAUC against training speed, one labelled point per model.

    Models that no other one beats in both are emphasised.
    """
    timed = results[results["samples_per_second"] > 0]
    speed, gauc = timed["samples_per_second"].to_numpy(), timed["gauc"].to_numpy()
    beaten = np.array(
        [((speed >= s) & (gauc >= g) & ((speed > s) | (gauc > g))).any() for s, g in zip(speed, gauc, strict=True)], bool
    )  # fmt: skip
    groups = ((beaten, "other models", -1), (~beaten, "no other model is both better and faster", 0))
    marks = [
        Points(
            rows["samples_per_second"].tolist(), rows["gauc"].tolist(), name, color=color, labels=rows["name"].astype(str).tolist(),
            hover=[f"{row.name}: GAUC {row.gauc:.4f}, {row.samples_per_second:,.0f} samples/s" for row in rows.itertuples(index=False)],
        )
        for chosen, name, color in groups
        if len(rows := timed[chosen])
    ]  # fmt: skip
    panel = Panel(marks, x_label="training speed (samples/s)", y_label="GAUC", x_log=True)
    return Chart(
        title, [panel], row_height=520,
        note="Training speed on the machine that trained the models, without evaluation. Better models are further up, faster ones "
        "further right.",
    )  # fmt: skip


def groups_chart(groups: dict[str, pd.DataFrame], *, title: str) -> Chart:
    """Draw GAUC by group of test samples, one panel per grouping.

    Args:
        groups: tables of `reporting.groups.gauc_by_group` by what they group by; columns ``name``, ``group``, ``gauc``,
            ``samples``, one row per model and group.
        title: heading of the chart.
    """
    panels = []
    for grouping, table in groups.items():
        labels = list(dict.fromkeys(table["group"]))
        sizes = table.drop_duplicates("group").set_index("group")["samples"]
        lines = [
            Line(
                [labels.index(group) for group in rows["group"]], rows["gauc"].tolist(), name, color=index, markers=True
            )
            for index, (name, rows) in enumerate(table.groupby("name", sort=False))
        ]  # fmt: skip
        ticks = [f"{label} ({sizes[label]:,})" for label in labels]
        panels.append(
            Panel(
                lines, title=f"By {grouping}", x_label=f"{grouping} (test samples)", y_label="GAUC", x_ticks=ticks
            )
        )  # fmt: skip
    return Chart(
        title, panels, columns=2,
        note="The groups are quarters of the test samples. The GAUC of a group with few samples varies more by chance.",
    )  # fmt: skip


def days_chart(days: pd.DataFrame, *, title: str) -> Chart:
    """Draw CTR and number of impressions by day and split.

    Args:
        days: table of `reporting.groups.ctr_by_day`; columns ``day``, ``date``, ``split``, ``ctr``, ``impressions``, one row per day.
        title: heading of the chart.
    """
    position = {day: index for index, day in enumerate(days["day"])}
    by_split = [(str(split), rows) for split, rows in days.groupby("split", sort=False, observed=True)]
    panels = [
        Panel(
            [
                Line([position[day] for day in rows["day"]], rows[column].tolist(), split, color=color, markers=True)
                for color, (split, rows) in enumerate(by_split)
            ],
            title=heading, x_label="day", y_label=label, x_ticks=_sparse(days["date"].tolist()),
        )
        for column, heading, label in (
            ("ctr", "CTR by day", "share of clicked impressions"), ("impressions", "Impressions by day", "impressions"),
        )
    ]  # fmt: skip
    return Chart(
        title, panels, columns=2,
        note="All impressions that are samples, each split in its colour. A day with far fewer impressions than the others may be "
        "incomplete; a CTR that changes between training and test days shifts the predictions (see calibration).",
    )  # fmt: skip


def _sparse(labels: list[str], most: int = 12) -> list[str]:
    """Return labels of which at most ``most``, evenly spaced, are not empty."""
    step = -(-len(labels) // most)
    return [label if index % step == 0 else "" for index, label in enumerate(labels)]


def calibration_chart(curves: dict[str, pd.DataFrame], *, title: str) -> Chart:
    """Draw the share of positive samples against the predicted CTR.

    Args:
        curves: tables of `reporting.groups.calibration` by model name; columns ``predicted``, ``observed``, ``error``, one row
            per tenth of the samples.
        title: heading of the chart.
    """
    largest = max(float(np.nanmax(table[["predicted", "observed"]].to_numpy())) for table in curves.values())
    marks = [Line([0, largest], [0, largest], "perfect calibration", color=-1, dashed=True)]
    marks += [
        Line(table["predicted"].tolist(), table["observed"].tolist(), name, color=index, markers=True)
        for index, (name, table) in enumerate(curves.items())
    ]
    errors = {f"calibration error, {name}": float(table["error"].iloc[0]) for name, table in curves.items()}
    panel = Panel(marks, x_label="mean predicted CTR", y_label="share of positive samples")
    return Chart(
        title, [panel], metrics=errors, row_height=400,
        note="Each point is a tenth of the test samples, ordered by predicted CTR. On the dashed line, predictions are right on "
        "average. With sampled negatives, the predictions are calibrated for the sampled data, not for live traffic.",
    )  # fmt: skip
