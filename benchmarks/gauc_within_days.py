"""GAUC over all test days next to GAUC within days, where impressions of different days are not compared.

    python benchmarks/gauc_within_days.py kuairand --models base_leaderboard lr_leaderboard --base lr_leaderboard --time-zone Asia/Shanghai

Reads the samples and the predictions of a finished run from ``data/``. Intervals are over users and seeds.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from deep_interest.evaluation import difference_interval, per_user_auc, user_aucs, variance_over_seeds


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
    parser.add_argument("--time-zone", default="UTC", help="of the days")
    parser.add_argument("--data", type=Path, default=Path("data"))
    arguments = parser.parse_args()
    print(within_days(arguments).to_string())


def within_days(arguments: argparse.Namespace) -> pd.DataFrame:
    """Return GAUC and its difference to the base, over all days and within days, by model."""
    samples = pd.read_parquet(arguments.data / "05_model_input" / arguments.dataset / "samples.parquet")
    test = samples[samples["split"] == "test"]
    days = (
        pd.to_datetime(test["time"], unit="ms", utc=True)
        .dt.tz_convert(arguments.time_zone)
        .dt.strftime("%Y-%m-%d")
    )
    fits = {
        model: _fits(
            arguments.data / "07_model_output" / arguments.dataset / model / "predictions.parquet", test
        )
        for model in dict.fromkeys([*arguments.models, arguments.base])
    }
    columns = {"over all days": None, "within days": days.to_numpy().astype(str)}
    table = {}
    for model, scores in fits.items():
        table[model] = {}
        for name, within in columns.items():
            users = test["user"].to_numpy(), test["label"].to_numpy()
            ours, base = (user_aucs(*users, each, within=within) for each in (scores, fits[arguments.base]))
            seeds = [
                variance_over_seeds([per_user_auc(*users, fit, within=within) for fit in each])
                for each in (scores, fits[arguments.base])
                if len(each) > 1
            ]
            interval = difference_interval(ours, base, seeds=seeds)
            table[model][name] = f"{ours.gauc().value:.4f}"
            table[model][f"difference {name}"] = (
                f"{interval.difference:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"
                if model != arguments.base
                else "–"
            )
    return pd.DataFrame(table).T


def _fits(file: Path, test: pd.DataFrame) -> np.ndarray:
    if not file.is_file():
        raise SystemExit(f"{file}: there is no such file; run the model first")
    predictions = pd.read_parquet(file)
    if not np.array_equal(predictions["user"], test["user"]) or not np.array_equal(
        predictions["item"], test["item"]
    ):
        raise SystemExit(
            f"{file}: these are not the predictions of the samples; run both with the same parameters"
        )
    return predictions.filter(regex="^seed").to_numpy().T


if __name__ == "__main__":
    main()
