"""Training speed of SIM, ETA, SDIM and TWIN compared with FuxiCTR's; one JSON line per model and history length.

    python benchmarks/compare.py --install --peers fuxictr      # the library's environment, once; needs a network
    python benchmarks/compare_long.py [--lengths 1000] [--models sim eta sdim twin]

Both sides train on the same samples, whose histories are all full, with embeddings of 64 + 64, an MLP of 200-80, four heads of
width 16, the newest 50 behaviours attended as well, and as many behaviours selected. SIM is the soft search, the only one that
FuxiCTR has. ``ratio`` is our samples per second over theirs, medians of alternating turns.
"""

import argparse
import json
import tempfile
from pathlib import Path

from cases import Case, Form
from compare import alternate, export, figures, ours, peer
from long_histories import long_samples
from machine import others_share, this_commit, this_machine

FORM = {"short_attention": "target", "heads": 4, "head_width": 16}
OURS = {
    "sim": ("sim_soft", {"search": "soft", "search_length": 50}),
    "eta": ("eta", {"search_length": 50}),
    "sdim": ("sdim", {"hash_rounds": 16, "bucket_bits": 3}),
    "twin": ("twin", {"search_length": 100}),
}
"""Our key and options of each of the library's models."""


def compare_long(
    model: str, *, length: int, batch_size: int, threads: int, seconds: float, turns: int
) -> dict:
    """Return the JSON line of one comparison."""
    key, options = OURS[model]
    count = batch_size * max(8, 8_000_000 // length // batch_size)
    samples = long_samples(count, length)
    with tempfile.TemporaryDirectory() as folder:
        export(samples, Path(folder))
        share = others_share()
        with peer("fuxictr", Case(model, batch_size), Path(folder), threads) as theirs:
            own = ours(
                samples, Case(key, batch_size), Form("like for like", "target attention", FORM | options)
            )
            sides = {"ours": own, "peer": theirs}
            speeds = alternate(sides, batch_size=batch_size, seconds=seconds, turns=turns, most=count)
        others = share()
    return {
        "bench": "compare_long", "case": f"history {length}", "model": key, "batch_size": batch_size, "peer": "fuxictr",
        **figures(speeds["ours"], speeds["peer"]), "turns": turns, "threads": threads, "others_cpu": round(others, 3),
        "machine": this_machine(), "commit": this_commit(),
    }  # fmt: skip


def main() -> None:
    """Measure every case and print it."""
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=list(OURS), choices=list(OURS))
    parser.add_argument("--lengths", nargs="+", type=int, default=[1_000])
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2, help="duration of a turn of each side")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for length in arguments.lengths:
        for model in arguments.models:
            line = compare_long(
                model, length=length, batch_size=arguments.batch_size, threads=arguments.threads,
                seconds=arguments.seconds, turns=arguments.turns,
            )  # fmt: skip
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
