"""The benchmark of Rocket Launching compares every light net with the others and with its booster."""

import numpy as np
import pandas as pd
import pytest
from rocket import BASES, PAIRS, VARIANTS, accuracy, request_times, runs_of


def test_the_light_net_is_compared_with_the_light_net_alone_the_distilled_one_and_the_booster():
    """60 users with a positive and two negatives. One model ranks every positive first, the others rank the positives of every other user first."""
    users, labels = np.arange(60).repeat(3), np.tile([1, 0, 0], 60)
    right, half = labels.astype(np.float32), np.where(users % 2, labels, 1 - labels).astype(np.float32)
    predictions = {
        f"{base}{variant}": pd.DataFrame(
            {
                "user": users,
                "item": 1,
                **dict.fromkeys(("seed_1", "seed_2"), right if variant == "_light" else half),
            }
        )
        for base in BASES
        for variant in VARIANTS
    }
    runs = {model: runs_of(model, of) for model, of in predictions.items()}
    lines = accuracy("small", pd.DataFrame({"user": users, "label": labels}), runs)
    assert [(line["model"], line["against"]) for line in lines] == [
        (f"{base}{ours}", f"{base}{other}") for base in BASES for ours, other in PAIRS
    ]
    for line in lines:
        light = line["model"].endswith("_light")
        assert line["gauc"] == (1.0 if light else 0.5)
        assert line["difference"] == pytest.approx(0.5 if light else 0.0)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_requests_to_booster_and_light_net_are_timed(base):
    times = request_times(base, 4, requests=3, history=5, candidates=4)
    assert list(times) == [base, f"{base}_light"]
    assert all(len(each) == 3 and min(map(min, each)) >= 0 for each in times.values())
