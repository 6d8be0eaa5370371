"""What each part of the engine adds to a training step: ``python benchmarks/ablation.py [--quick]``; one JSON line per part.

Steps with the part and without it alternate in one process, on the same batches; ``ratio`` is the median over the pairs of the time
without it divided by the time with it, so 1.1 means that a step takes 10 % longer without the part. The time is the CPU time of one
thread, on which other programs have little influence; only what concerns threads is measured by the clock, on as many threads as torch
uses. The workload is that of ``train.py`` with jagged histories; ``large`` has a million items, where memory matters most. Lines without
a model compare single kernels.
``python benchmarks/ablation.py --table FILE`` prints the lines of a file as Markdown tables.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import product
from pathlib import Path

from train import make_fit

MODELS, SIZES, WARM_UP = ("din", "dien"), (128, 1024), 3
HUGE_PAGES = "huge pages"
OF_THREADS = ("thread pool: concurrent.futures instead", "torch's threads for the kernels")
OF_DIEN = (
    "kernels: GRU", "kernels: segment sums, softmax and expansion", "kernels: weighted sums and inner products",
)  # fmt: skip
OF_LARGE_TABLES = ("prefetching", "kernels: row-sparse Adam", "kernels: coalescing of row-sparse gradients")


def main() -> None:
    """Measure every case in a process of its own and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pairs of steps")
    parser.add_argument(
        "--table", type=Path, help="print the lines of a file as Markdown tables, measure nothing"
    )
    parser.add_argument("--case", choices=["jagged", "large", "kernels"])
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument(
        "--parts", nargs="+", help="with --case and --model: names of the parts to switch off; all by default"
    )
    arguments = parser.parse_args()
    if arguments.table:
        sys.stdout.write(tables([json.loads(line) for line in arguments.table.read_text().splitlines()]))
    elif arguments.case == "kernels":
        compare_kernels(pairs=5 if arguments.quick else 25)
    elif arguments.case:
        compare_steps(
            arguments.parts,
            arguments.case,
            arguments.model,
            arguments.batch_size,
            pairs=(40 if arguments.batch_size < 1000 else 15) if arguments.quick else 100,
        )
    else:
        quick = ["--quick"] if arguments.quick else []
        one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # `np.dot` is compared on one thread
        subprocess.run([sys.executable, __file__, "--case", "kernels", *quick], check=True, env=one_thread)
        for case, model, size in product(("jagged", "large"), MODELS, SIZES):
            command = [sys.executable, __file__, "--case", case, "--model", model, "--batch-size", str(size)]
            subprocess.run([*command, *quick], check=True)


def compare_kernels(*, pairs: int) -> None:
    """Print the comparisons of single kernels."""
    import ablation_kernels

    for compare in (ablation_kernels.products, ablation_kernels.large_tables, ablation_kernels.loops):
        for name, ratio in compare(pairs):
            report({"case": "kernels", "part": name, "ratio": round(ratio, 3)})


def compare_steps(chosen: list[str] | None, case: str, model: str, size: int, *, pairs: int) -> None:
    """Print what each part adds to the steps of a model."""
    import torch
    import workload
    from ablation_parts import fit_without_huge_pages, steps_off

    if case == "large":
        workload.ITEMS = 1_000_000
    samples = workload.amazon_shaped(max(60_000, (pairs + WARM_UP + 1) * size))
    options = {"model": model, "batch_size": size}
    fit = make_fit(samples, **options)
    parts = {
        name: off
        for name, off in steps_off(fit).items()
        if (case == "jagged" or name in OF_LARGE_TABLES) and (model == "dien" or name not in OF_DIEN)
    }
    batches = torch.randperm(len(samples)).split(size)
    common = {"case": case, "model": model, "batch_size": size, "pairs": pairs}
    threads = torch.get_num_threads()

    def step(fit_of_step, off, rows) -> float:
        with off():
            start = clock()
            fit_of_step.train_step(rows)
            return clock() - start

    others = {name: (fit, off) for name, off in parts.items()}
    if case == "large":
        others[HUGE_PAGES] = (fit_without_huge_pages(samples, **options), nullcontext)
    for name in chosen or others:
        other, off = others[name]
        clock, used = (time.perf_counter, threads) if name in OF_THREADS else (time.process_time, 1)
        torch.set_num_threads(used)
        with_part, ratios = [], []
        for number, rows in enumerate(batches[: pairs + WARM_UP]):
            order = ((fit, nullcontext), (other, off))
            first, second = order if number % 2 else order[::-1]
            seconds = [step(*first, rows), step(*second, rows)]
            on, without = seconds if number % 2 else seconds[::-1]
            if number >= WARM_UP:
                with_part.append(on)
                ratios.append(without / on)
        quartiles = statistics.quantiles(ratios, n=4)
        line = {"threads": used, "part": name, "ratio": round(statistics.median(ratios), 3)}
        line |= {"quartiles": [round(quartiles[0], 3), round(quartiles[2], 3)]}
        report({**common, **line, "ms": round(1000 * statistics.median(with_part), 3)})


def report(line: dict) -> None:
    """Print one line of JSON."""
    print(json.dumps({"bench": "ablation", **line}), flush=True)


def tables(lines: list[dict]) -> str:
    """The lines as Markdown: tables of steps with a column per model and batch size, and one of single kernels."""
    cases = [(case, [line for line in lines if line["case"] == case]) for case in ("jagged", "large")]
    text = "".join(_table(case, of_case) for case, of_case in cases if of_case)
    kernels = [line for line in lines if line["case"] == "kernels"]
    rows = "".join(f"| {line['part']} | {line['ratio']:.2f} |\n" for line in kernels)
    return text + (f"\n| Single kernel | Ratio |\n| :--- | ---: |\n{rows}" if rows else "")


def _table(case: str, lines: list[dict]) -> str:
    columns = list(product(MODELS, SIZES))
    ratios = {(line["part"], line["model"], line["batch_size"]): line["ratio"] for line in lines}

    def cells(part: str) -> Iterator[str]:
        for model, size in columns:
            ratio = ratios.get((part, model, size))
            yield "" if ratio is None else f"{ratio:.2f}"

    head = "".join(f" {model.upper()}, {size:,} |" for model, size in columns)
    rows = [
        f"| {part} | {' | '.join(cells(part))} |\n" for part in dict.fromkeys(line["part"] for line in lines)
    ]
    return f"\n| Without ({case}) |{head}\n| :--- |{' ---: |' * len(columns)}\n{''.join(rows)}"


if __name__ == "__main__":
    main()
