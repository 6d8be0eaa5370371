"""Batch scoring of users × candidates: ``python benchmarks/pairs.py [--quick]``; one JSON line a case.

A million pairs (100,000 with ``--quick``): 1,000 users with mean histories of 9 (at most 100) or all of 100, and 1,000 candidates; each user keeps
ten, written to one Parquet file. Each case has a process of its own, so that its peak memory is its own; ``base_rss_mb`` is what the process held
before the scoring began.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = [("din", False), ("din", True), ("dien", False), ("base", False)]


def measure(key: str, *, full: bool, users: int) -> dict[str, object]:
    """Seconds and peak memory of one case."""
    import numpy as np
    import pandas as pd
    import torch
    from workload import amazon_shaped

    from deep_interest.datasets import ScoresFile
    from deep_interest.models.registry import build_model, model_config
    from deep_interest.serving.pairs import Scores, ScoringRequest, score_pairs

    store = amazon_shaped(users, full=full).store
    torch.manual_seed(0)
    config = model_config(key, {}, common={"embedding_dim": 32, "hidden": (200, 80)})
    model = build_model(key, config, store.schema).eval()
    asked = ScoringRequest(
        users=pd.Series(np.arange(users)), user_codes=np.arange(1, users + 1, dtype=np.int32), context={},
        items=pd.Series(np.arange(1000)), item_codes=np.arange(1, 1001, dtype=np.int32), bids=np.ones(1000),
    )  # fmt: skip
    options = {"version": "benchmark", "max_len": 100, "top_k": 10}
    list(
        score_pairs(
            model,
            store,
            ScoringRequest(**{**vars(asked), "users": asked.users[:2], "user_codes": asked.user_codes[:2]}),
            **options,
        )
    )
    before = _peak_mb()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        ScoresFile(filepath=f"{folder}/scores.parquet").save(
            Scores("benchmark", score_pairs(model, store, asked, **options))
        )
        seconds = time.perf_counter() - start
    pairs = users * 1000
    return {
        "bench": "pairs", "case": "full" if full else "jagged", "model": key, "pairs": pairs, "seconds": round(seconds, 2),
        "samples_per_s": round(pairs / seconds), "peak_rss_mb": round(_peak_mb()), "base_rss_mb": round(before),
        "threads": torch.get_num_threads(),
    }  # fmt: skip


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure every case in a process of its own and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100 users instead of 1,000")
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    users = 100 if arguments.quick else 1000
    if arguments.case:
        key, full = arguments.case
        print(json.dumps(measure(key, full=full == "full", users=users)), flush=True)
        return
    for key, full in CASES:
        command = [sys.executable, str(Path(__file__)), "--case", key, "full" if full else "jagged"]
        subprocess.run(command + (["--quick"] if arguments.quick else []), check=True)


if __name__ == "__main__":
    main()
