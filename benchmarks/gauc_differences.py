"""Differences in GAUC between any models of a finished run, with intervals over users and seeds.

    python benchmarks/gauc_differences.py amazon_toys --models dien_leaderboard --base din_leaderboard
    python benchmarks/gauc_differences.py kuairand --models base_leaderboard --base lr_leaderboard --time-zone Asia/Shanghai

With ``--time-zone`` also within days: impressions of different days are not compared. With ``--ensemble`` each model is the mean of the log-odds
of its seeds, so that intervals are over users alone. With ``--level`` also the smallest difference that a test at that level finds with a
probability of 80 %. Reads samples and predictions from ``data/``.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import logit

from deep_interest.evaluation import (
    difference_interval,
    mean_over_seeds,
    per_user_auc,
    power_of,
    variance_over_seeds,
)
from deep_interest.evaluation.metrics import PROBABILITY_CLIP
from deep_interest.logs.suspicions import ticks_per_second


def main() -> None:
    """Print one row per model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    parser.add_argument(
        "--models", nargs="+", required=True, help="folders under data/07_model_output/<dataset>"
    )
    parser.add_argument("--base", required=True, help="model that the others are compared with")
    parser.add_argument("--time-zone", help="of the days; without it, GAUC within days is omitted")
    parser.add_argument("--ensemble", action="store_true", help="average the log-odds of each model's seeds")
    parser.add_argument("--level", type=float, help="of the test whose power is estimated, such as 0.05")
    parser.add_argument("--data", type=Path, default=Path("data"))
    arguments = parser.parse_args()
    test, fits = read(
        arguments.data, arguments.dataset, [*arguments.models, arguments.base], time_zone=arguments.time_zone
    )
    if arguments.ensemble:
        fits = {model: ensemble(of_seeds) for model, of_seeds in fits.items()}
    print(gauc_differences(test, fits, base=arguments.base, level=arguments.level).to_string())


def read(
    data: Path, dataset: str, models: list[str], *, time_zone: str | None = None
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Return the test samples, with their day if there is a time zone, and the predictions of each model, ``(seeds, n)``."""
    samples = pd.read_parquet(data / "05_model_input" / dataset / "samples.parquet")
    test = samples[samples["split"] == "test"]
    folder = data / "07_model_output" / dataset
    fits = {model: _fits(folder / model / "predictions.parquet", test) for model in models}
    if time_zone is None:
        return test, fits
    nanoseconds = test["time"] * (1_000_000_000 // ticks_per_second(test["time"]))
    times = pd.to_datetime(nanoseconds, utc=True).dt.tz_convert(time_zone)
    return test.assign(day=times.dt.strftime("%Y-%m-%d")), fits


def gauc_differences(
    test: pd.DataFrame, fits: dict[str, np.ndarray], *, base: str, level: float | None = None
) -> pd.DataFrame:
    """Return GAUC and its difference to the base by model, and the same within days if the samples have a day.

    With a ``level``, also the smallest difference that a test at this level finds with a probability of 80 %.
    """
    rows = test["user"].to_numpy(), test["label"].to_numpy()
    table: dict[str, dict[str, str]] = {model: {} for model in fits}
    comparisons = {"GAUC": None}
    if "day" in test:
        comparisons["GAUC within days"] = test["day"].to_numpy().astype(str)
    for name, within in comparisons.items():
        aucs = {
            model: [per_user_auc(*rows, fit, within=within) for fit in of_seeds]
            for model, of_seeds in fits.items()
        }
        means = {model: mean_over_seeds(of_seeds) for model, of_seeds in aucs.items()}
        for model, row in table.items():
            row[name] = f"{means[model].gauc().value:.4f}"
            seeds = [variance_over_seeds(aucs[key]) for key in (model, base) if len(aucs[key]) > 1]
            found = difference_interval(means[model], means[base], seeds=seeds)
            row[f"difference in {name}"] = (
                "–" if model == base else f"{found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
            )
            if level is not None:
                power = power_of(means[model], means[base], seeds=seeds, level=level)
                row[f"smallest difference in {name}"] = (
                    "–" if model == base else f"{power.smallest_difference:.4f}"
                )
    return pd.DataFrame(table).T


def ensemble(probabilities: np.ndarray) -> np.ndarray:
    """Return the mean log-odds over the seeds, ``(1, n)``, of probabilities ``(seeds, n)``."""
    return logit(probabilities.astype(np.float64).clip(PROBABILITY_CLIP, 1 - PROBABILITY_CLIP)).mean(
        axis=0, keepdims=True
    )


def _fits(file: Path, test: pd.DataFrame) -> np.ndarray:
    if not file.is_file():
        raise SystemExit(f"{file}: not found; run the model first")
    predictions = pd.read_parquet(file)
    if not all(np.array_equal(predictions[name], test[name]) for name in ("user", "item")):
        raise SystemExit(
            f"{file}: these are not the predictions of the samples; run both with the same parameters"
        )
    return predictions.filter(regex="^seed").to_numpy().T


if __name__ == "__main__":
    main()
