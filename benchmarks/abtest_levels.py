"""A/A and A/B studies of the read-out of A/B tests: false positives, also with a look on every day; coverage; CUPED; novelty; duration.

    python benchmarks/abtest_levels.py --repetitions 400

Logs are simulated (`benchmarks/abtest_log.py`): users differ and come back over 28 days. One JSON object per line and metric. In A/A tests
`false_positives` is the share of the tests whose interval after the last day excludes 0, `any_day_fixed` the share of those in which the
fixed-horizon interval excludes 0 on any of the days, and `any_day_always_valid` and `any_day_planned` the same for the always-valid interval, of any number of looks and of 28 planned ones. In A/B tests
`coverage` is the share of the intervals after the last day that include the true lift, `coverage_always_valid` of the tests whose always-valid
interval includes it on all days, and `narrower` by how much CUPED's interval is narrower on average. `error` is the standard error of a share of 5 %.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np
from abtest_log import ARMS, Setting, simulate

from deep_interest.abtest.duration import days_until, fit_variance_curve
from deep_interest.abtest.lift import log_difference
from deep_interest.abtest.metrics import METRICS
from deep_interest.abtest.novelty import novelty_slope
from deep_interest.abtest.planned_looks import valid_on_planned_days
from deep_interest.abtest.sequential import always_valid

EXPECTED = 0.05
SETTINGS = {
    "typical": Setting(),
    "few users": Setting(users=1000),
    "heavy users": Setting(users=4000, activity=1.5),
    "unequal arms": Setting(share=0.2),
    "daily users": Setting(users=2000, visits=0.8),
    "rare clicks": Setting(ctr=0.005),
}
CONTROL, TREATED = ARMS


def study(setting: Setting, repetitions: int, seed: int) -> dict[str, dict[str, float]]:
    """Return what happened in the repetitions of a test, by metric."""
    rng = np.random.default_rng(seed)
    tests = [_test(rng, setting) for _ in range(repetitions)]
    result = {}
    for name in METRICS:
        truth = 0.0 if name == "pay_per_click" else setting.lift
        columns = {key: np.array([test[name][key] for test in tests]) for key in tests[0][name]}
        result[name] = _summary(columns, truth)
    return result


def _test(rng: np.random.Generator, setting: Setting) -> dict[str, dict[str, np.ndarray]]:
    """Return by metric the ends of the intervals ``(days, 2)`` of each kind, and the p-value of the slope."""
    log = simulate(rng, setting).user_days()
    ends: dict[str, dict[str, list]] = {
        name: {key: [] for key in ("plain", "cuped", "always", "always_cuped", "variance")}
        for name in METRICS
    }
    differences: dict[tuple[str, bool], list] = {
        (name, cuped): [] for name in METRICS for cuped in (False, True)
    }
    for _, moments in log.moments_by_day():
        for name, metric in METRICS.items():
            for cuped in (False, True):
                found = log_difference(moments[TREATED], moments[CONTROL], metric, cuped=cuped)
                differences[name, cuped].append(found)
                fixed, always = found.lift(), always_valid(found, expected_lift=EXPECTED)
                ends[name]["cuped" if cuped else "plain"].append((fixed.low, fixed.high))
                ends[name]["always_cuped" if cuped else "always"].append((always.low, always.high))
                if not cuped:
                    ends[name]["variance"].append((found.variance, 0.0))
    for (name, cuped), of in differences.items():
        planned = valid_on_planned_days(of, range(1, len(of) + 1), planned_days=len(of))
        ends[name]["planned_cuped" if cuped else "planned"] = [(each.low, each.high) for each in planned]
    slopes = {name: novelty_slope(log, metric, TREATED, CONTROL).p_value for name, metric in METRICS.items()}
    return {
        name: {key: np.array(value) for key, value in of.items()} | {"slope": np.array(slopes[name])}
        for name, of in ends.items()
    }


def _summary(columns: dict[str, np.ndarray], truth: float) -> dict[str, float]:
    def misses(kind: str, value: float) -> np.ndarray:
        return (columns[kind][..., 0] > value) | (columns[kind][..., 1] < value)

    kinds = ("plain", "cuped", "always", "planned")
    widths = {kind: np.log1p(columns[kind][:, -1]) @ np.array([-1, 1]) for kind in kinds}
    return {
        "excludes_0": float(misses("plain", 0)[:, -1].mean()),
        "excludes_0_cuped": float(misses("cuped", 0)[:, -1].mean()),
        "any_day_fixed": float(misses("plain", 0).any(axis=1).mean()),
        "any_day_always_valid": float(misses("always", 0).any(axis=1).mean()),
        "any_day_always_valid_cuped": float(misses("always_cuped", 0).any(axis=1).mean()),
        "any_day_planned": float(misses("planned", 0).any(axis=1).mean()),
        "any_day_planned_cuped": float(misses("planned_cuped", 0).any(axis=1).mean()),
        "coverage_planned": float(1 - misses("planned", truth).any(axis=1).mean()),
        "planned_wider": float(widths["planned"].mean() / widths["plain"].mean()),
        "coverage": float(1 - misses("plain", truth)[:, -1].mean()),
        "coverage_cuped": float(1 - misses("cuped", truth)[:, -1].mean()),
        "coverage_always_valid": float(1 - misses("always", truth).any(axis=1).mean()),
        "narrower": float(1 - widths["cuped"].mean() / widths["plain"].mean()),
        "always_valid_wider": float(widths["always"].mean() / widths["plain"].mean()),
        "slope_excludes_0": float((columns["slope"] < 0.05).mean()),
    }


def durations(setting: Setting, repetitions: int, seed: int) -> dict[str, float]:
    """Return the days that are predicted after a week for the lift of CTR that a test of four weeks just finds."""
    rng, metric, predicted = np.random.default_rng(seed), METRICS["ctr"], []
    variances = np.array(
        [
            [
                log_difference(moments[TREATED], moments[CONTROL], metric).variance
                for _, moments in log.moments_by_day()
            ]
            for log in (simulate(rng, setting).user_days() for _ in range(repetitions))
        ]
    )
    lift = float(np.expm1(2.8016 * np.sqrt(variances[:, 27].mean())))
    for path in variances:
        curve = fit_variance_curve(path[:7])
        assert curve is not None
        predicted.append(7 + days_until(curve, lift))
    low, middle, high = np.quantile(
        predicted, [0.1, 0.5, 0.9], method="nearest"
    ).tolist()  # some are infinite
    return {"lift": lift, "days": 28.0, "predicted_10": low, "predicted": middle, "predicted_90": high}


def lines(repetitions: int, seed: int) -> Iterator[dict]:
    """Yield one line for each setting, kind of test and metric."""
    error = (0.05 * 0.95 / repetitions) ** 0.5
    for case, setting in SETTINGS.items():
        for kind, tested in (("A/A", setting), ("A/B", replace(setting, lift=0.08))):
            for metric, found in study(tested, repetitions, seed).items():
                yield {"bench": "abtest_levels", "case": case, "kind": kind, "metric": metric} | found | {
                    "error": error, "repetitions": repetitions,
                }  # fmt: skip
    fading = replace(SETTINGS["typical"], users=20_000, lift=0.02, novelty=0.3)
    found = study(fading, max(1, repetitions // 4), seed)["ctr"]
    yield {"bench": "abtest_levels", "case": "novelty", **asdict(fading), "slope_excludes_0": found["slope_excludes_0"]}  # fmt: skip
    for case in ("typical", "daily users"):
        yield {"bench": "abtest_levels", "case": f"duration, {case}"} | durations(
            SETTINGS[case], max(1, repetitions // 4), seed
        )


def main() -> None:
    """Print the levels."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for line in lines(options.repetitions, options.seed):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
