r"""Our DIN and DIEN against the same models of public libraries, on the same samples with the same validation rule.

    python benchmarks/accuracy_vs_peers.py --install                 # the peers' environments, once; needs a network
    python benchmarks/accuracy_vs_peers.py --dataset amazon_beauty --model din
    python benchmarks/accuracy_vs_peers.py --dataset amazon_beauty --model din --trials 24 --peers fuxictr recbole
    python benchmarks/accuracy_vs_peers.py --dataset simulated_long --model sim --max-len 500 --no-l2 \
        --params "datasets.simulated_long.features.item=item_id category,datasets.simulated_long.features.profile=[]"

Ours are the rows of the dataset's table with its recipe and five seeds, histories cut at ``--max-len`` for all. A peer's learning rate, and then
its L2 (not with ``--no-l2``), are searched on validation GAUC with the first seed, from the library's default on by factors of about three and of ten
for as long as that helps; the best pair is fitted with every seed.

With ``--trials``, both are tuned: ours are the rows of ``kedro run --pipelines=leaderboard.<dataset>``, which must have been run (in the project, or
below ``--data``), and a peer has as many trials of Optuna as the option says, over the leaderboard's ranges of learning rate, L2, widths and dropout,
and with its rule to end hopeless trials.
Libraries see items and categories in histories of at most ``--max-len``; ours see the same with
``datasets.<dataset>.features.behavior=item_id category,datasets.<dataset>.training.max_len=20`` in the leaderboard's ``--params``.

Each fit is a file below ``--work``: a run that was stopped goes on. Each comparison prints one JSON line: GAUC of both (means over seeds) and the
paired bootstrap interval of the difference over users.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import optuna
import pandas as pd
from environments import PROJECT, WORK, command, environment, install
from padded import padded
from peer_search import DEFAULTS, Report, search

from deep_interest.evaluation.metrics import per_user_auc
from deep_interest.evaluation.seed_variance import variance_over_seeds
from deep_interest.evaluation.significance import difference_interval, mean_over_seeds
from deep_interest.io.atomic import atomic_path

if TYPE_CHECKING:
    from deep_interest.logs.behavior_log import BehaviorLog
    from deep_interest.logs.encoding import FeatureTables

LIBRARIES = ("deepctr_torch", "torch_rechub")
ALL_LIBRARIES = (*LIBRARIES, "fuxictr", "recbole")
LONG = {"sim": ("sim_hard", "sim_soft"), "eta": ("eta",), "sdim": ("sdim",), "twin": ("twin",)}
"""Our rows next to FuxiCTR's models of long histories."""
LEARNING_RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03)
PENALTIES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # the libraries' own L2
OURS = {"din": ("din", "din_softmax", "din_mba", "din_softmax_mba"), "dien": ("dien", "dien_mba"), **LONG}
TUNED = {
    "din": ("din_items", "din", "din_mba", "din_softmax", "din_softmax_mba"),
    "dien": ("dien_items", "gru_augru", "dien", "dien_mba"),
}
"""Our rows of the leaderboard; those with ``items`` in their names see of a behaviour what the libraries see, its item and category."""
EPOCH = '{"epoch":'  # begins the lines that `peers.job.fit` prints
SEEDS = {"din": 3, "dien": 2}  # the others have one


def export(dataset: str, *, data: Path, work: Path, max_len: int) -> Path:
    """Write the samples as the padded arrays that the libraries take; DIEN has one sampled item per behaviour.

    Returns:
        The folder; its name holds a hash of the samples.
    """
    from deep_interest.datasets import BehaviorLogFolder, FeatureTablesFolder

    samples = pd.read_parquet(samples_file(dataset, data=data))
    digest = hashlib.blake2b(
        pd.util.hash_pandas_object(samples, index=False).to_numpy().tobytes(), digest_size=4
    )
    folder = work / "samples" / f"{dataset}_{max_len}_{digest.hexdigest()}"
    if (folder / "sizes.json").exists():
        return folder
    log = BehaviorLogFolder(filepath=str(data / f"04_feature/{dataset}/log")).load()
    features = FeatureTablesFolder(filepath=str(data / f"04_feature/{dataset}/features")).load()
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in samples.groupby("split", observed=True):
        np.savez(folder / f"{name}.npz", **arrays_of(rows, log, features, max_len=max_len, rng=rng))
    sizes = {
        "item": 1 + int(features.items["item_id"].max()),
        "category": 1 + int(features.items["category"].max()),
    }
    with atomic_path(folder / "sizes.json") as path:
        path.write_text(json.dumps(sizes))
    return folder


def arrays_of(
    rows: pd.DataFrame,
    log: "BehaviorLog",
    features: "FeatureTables",
    *,
    max_len: int,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Return samples as padded arrays in which candidates and behaviours have the codes of the feature ``item_id``.

    The column ``item`` of samples numbers all items, the feature only those with training samples; the others are 0.
    """
    code, category = features.items["item_id"], features.items["category"]
    of_code = np.zeros(1 + int(code.max()), category.dtype)
    of_code[code[code > 0]] = category[code > 0]
    arrays = padded(
        item=code[rows["item"]], user=rows["user"].to_numpy(np.int64), label=rows["label"].to_numpy(),
        end=rows["history_end"].to_numpy(np.int64), offsets=log.offsets, item_ids=log.fields["item_id"], category=of_code,
        max_len=max_len, rng=rng,
    )  # fmt: skip
    return arrays | {"category": category[rows["item"]].astype(np.int32)}


def fit(peer: str, job: dict, *, work: Path, report: Report | None = None) -> dict:
    """The result of one fit, from its file if it is there.

    Args:
        peer, job, work: library, order of its runner without ``out``, and the folder of the files.
        report: gets the validation GAUC of each epoch, and can end the fit, which is then in a file of its own.
    """
    digest = hashlib.blake2b(json.dumps(job, sort_keys=True).encode(), digest_size=4).hexdigest()
    name = "_".join(str(job[key]) for key in ("model", "learning_rate", "l2", "seed"))
    out = work / "fits" / peer / f"{name}_{digest}.npz"
    ended_early = out.with_suffix(".ended_early.json")
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        if report is not None and ended_early.exists():
            replay(json.loads(ended_early.read_text()), report)
        order = out.with_suffix(".json")
        order.write_text(json.dumps(job | {"out": str(out)}))
        history: list[float] = []
        try:
            with closing(epochs(command(peer, order, work))) as values:
                for value in values:
                    history.append(value)
                    if report is not None:
                        report(len(history) - 1, value)
        except optuna.TrialPruned:
            ended_early.write_text(json.dumps(history))
            raise
        report = None
    with np.load(out) as arrays:
        result = {name: arrays[name] for name in arrays}
    if report is not None:
        replay(result["history"].tolist(), report)
    return result


def epochs(runner: Sequence[str]) -> Generator[float, None, None]:
    """Run a library's runner and give the validation GAUC of each epoch; closing the generator ends the runner.

    Raises:
        subprocess.CalledProcessError: the runner has failed.
    """
    with subprocess.Popen(runner, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="", file=sys.stderr, flush=True)
                if line.startswith(EPOCH):  # libraries print, too
                    yield float(json.loads(line)["validation_gauc"])
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, runner)


def replay(history: Sequence[float], report: Report) -> None:
    """Report the epochs of an earlier fit."""
    for epoch, value in enumerate(history):
        report(epoch, value)


def best_fits(
    peer: str, job: dict, *, seeds: int, work: Path, search_l2: bool = True
) -> tuple[dict, list[np.ndarray]]:
    """Search with the first seed; the best options, and the test scores of every seed with them."""
    best = {name: DEFAULTS[name] for name in ("learning_rate", "l2")}
    tried: dict[str, float] = {}

    def value(options: dict) -> float:
        found = float(fit(peer, job | options | {"seed": 1}, work=work)["best"])
        tried["{learning_rate:g}, {l2:g}".format(**options)] = round(found, 4)
        return found

    grids = {"learning_rate": LEARNING_RATES} | ({"l2": PENALTIES} if search_l2 else {})
    for name, grid in grids.items():
        best[name] = climb(grid, best[name], lambda x, name=name: value(best | {name: x}))
    scores = [fit(peer, job | best | {"seed": seed}, work=work)["scores"] for seed in range(1, seeds + 1)]
    return best | {"tried": tried}, scores


def tuned_fits(peer: str, job: dict, *, trials: int, seeds: int, work: Path) -> tuple[dict, list[np.ndarray]]:
    """Search with the first seed and Optuna; the best options, and the test scores of every seed with them."""

    def value(options: dict, report: Report) -> float:
        return float(fit(peer, job | options | {"seed": 1}, work=work, report=report)["best"])

    best, values = search(value, trials=trials)
    scores = [fit(peer, job | best | {"seed": seed}, work=work)["scores"] for seed in range(1, seeds + 1)]
    return best | {"validation_gauc": [round(value, 4) for value in values]}, scores


def climb(grid: Sequence[float], start: float, value: Callable[[float], float]) -> float:
    """The point of the grid that is better than both its neighbours, by steps from ``start``."""
    at = grid.index(start)
    for step in (1, -1):
        before = at
        while 0 <= at + step < len(grid) and value(grid[at + step]) > value(grid[at]):
            at += step
        if at != before:
            break
    return grid[at]


def fit_ours(dataset: str, model: str, *, max_len: int, params: str) -> None:
    """Train our rows, or load those that are finished."""
    rows = ",".join(f"{dataset}.{row}" for row in OURS[model])
    parameters = f"--params=training.options.max_len={max_len}" + (f",{params}" if params else "")
    run = [sys.executable, "-m", "kedro", "run", f"--pipelines={rows}", parameters]
    subprocess.run(run, check=True, cwd=PROJECT, stdout=sys.stderr)


def predictions_file(dataset: str, row: str, *, data: Path) -> Path:
    return data / f"07_model_output/{dataset}/{row}/predictions.parquet"


def tuned_rows(dataset: str, model: str, *, data: Path) -> dict[str, str]:
    """The rows of a finished leaderboard that are compared with a model of the libraries, and their names in files."""
    keys = {row: f"{row}_leaderboard" for row in TUNED[model]}
    found = {row: key for row, key in keys.items() if predictions_file(dataset, key, data=data).exists()}
    if not found:
        raise SystemExit(
            f"{data} has no tuned {' or '.join(keys)}; run kedro run --pipelines=leaderboard.{dataset} with one of them first"
        )
    return found


def samples_file(dataset: str, *, data: Path) -> Path:
    return data / f"05_model_input/{dataset}/samples.parquet"


def our_scores(dataset: str, row: str, *, data: Path) -> np.ndarray:
    """Our predictions of the test samples, which the libraries have, ``(seeds, n)``."""
    predictions = pd.read_parquet(predictions_file(dataset, row, data=data))
    samples = pd.read_parquet(samples_file(dataset, data=data), columns=["user", "item", "split"])
    test = samples[samples["split"] == "test"]
    if not all(np.array_equal(predictions[name], test[name]) for name in ("user", "item")):
        raise SystemExit(
            f"{dataset}.{row} predicts other samples than {samples_file(dataset, data=data)} has; run kedro run again for {dataset}"
        )
    return predictions.filter(like="seed_").to_numpy().T


def main() -> None:
    """Fit what is missing and print the comparisons."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--install", action="store_true", help="make the peers' environments (needs a network)"
    )
    parser.add_argument("--dataset", default="amazon_beauty")
    parser.add_argument("--model", choices=sorted(OURS), default="din")
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=ALL_LIBRARIES,
        help="default: DeepCTR-Torch and torch-rechub, all with --trials, or FuxiCTR for models of long histories",
    )
    parser.add_argument("--params", default="", help="further parameters of our runs")
    parser.add_argument("--no-l2", action="store_true", help="search the learning rate only")
    parser.add_argument("--trials", type=int, help="trials of every library, next to our leaderboard")
    parser.add_argument("--seeds", type=int, help="of every library's best options")
    parser.add_argument("--data", type=Path, default=PROJECT / "data", help="where our runs are")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--max-len", type=int, default=50)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.trials and options.model not in TUNED:
        parser.error(f"--trials: only with --model {' or '.join(TUNED)}")
    work = options.work.resolve()
    default = ("fuxictr",) if options.model in LONG else ALL_LIBRARIES if options.trials else LIBRARIES
    peers = options.peers or default
    if options.install:
        install(peers, work)
        return
    if options.trials:
        ours_keys = tuned_rows(options.dataset, options.model, data=options.data)
    else:
        ours_keys = {row: row for row in OURS[options.model]}
        fit_ours(options.dataset, options.model, max_len=options.max_len, params=options.params)
    arrays = export(options.dataset, data=options.data, work=work, max_len=options.max_len)
    job = {
        "task": "fit", "data": str(arrays), "model": options.model, "dim": options.dim, "batch_size": options.batch_size,
        "epochs": options.epochs, "patience": 1, "threads": options.threads,
    }  # fmt: skip
    test = dict(np.load(arrays / "test.npz"))
    for peer in peers:
        seeds = options.seeds or SEEDS.get(options.model, 1)
        if options.trials:
            best, scores = tuned_fits(peer, job, trials=options.trials, seeds=seeds, work=work)
        else:
            best, scores = best_fits(peer, job, seeds=seeds, work=work, search_l2=not options.no_l2)
        their_fits = [per_user_auc(test["user"], test["label"], s) for s in scores]
        theirs = mean_over_seeds(their_fits)
        for model, key in ours_keys.items():
            ours_all = our_scores(options.dataset, key, data=options.data)
            our_fits = [per_user_auc(test["user"], test["label"], s) for s in ours_all]
            ours = mean_over_seeds(our_fits)
            variances = [variance_over_seeds(our_fits), variance_over_seeds(their_fits)]
            line = {
                "bench": "accuracy_vs_peers", "case": options.dataset, "model": model, "peer": peer, **best,
                "gauc": ours.gauc().value, "peer_gauc": theirs.gauc().value, "seeds": len(ours_all), "peer_seeds": len(scores),
                **asdict(difference_interval(ours, theirs, seeds=variances)),
            }  # fmt: skip
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
