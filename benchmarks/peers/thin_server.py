"""A thin ranking server for another engine: ``python thin_server.py JOB.json``; the job is a `Job` as JSON.

Starlette and uvicorn, as in our service, with the same requests and answers. Ids are codes already, histories are read from arrays in
memory, and there are neither events, metrics nor a check of the request: less work than that of our service. In the environment of
DeepCTR-Torch, this package is not there.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Arrays = dict[str, np.ndarray]
Score = Callable[[int, np.ndarray], np.ndarray]
"""CTRs ``(C,)`` of items for the user with a code."""


@dataclass(frozen=True)
class Job:
    """What to serve.

    Attributes:
        engine: ``onnx`` or ``deepctr_torch``.
        arrays: file with ``offsets (U + 2,)``, ``item_id (N,)`` and ``category (N,)`` of the behaviours, and ``item_category (I + 1,)``.
        model: file of the ONNX model.
        dim: embedding width of item and of category, for DeepCTR-Torch.
        port: port to listen on.
        threads: threads of the engine.
        pool: whether requests are scored in so many threads, with one thread each; otherwise one after the other, with all threads.
    """

    engine: str
    arrays: str
    port: int
    threads: int
    pool: bool = False
    model: str = ""
    dim: int = 64


def onnx_score(job: Job, arrays: Arrays) -> Score:
    """Score with ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1 if job.pool else job.threads
    session = onnxruntime.InferenceSession(job.model, options)

    def score(user: int, items: np.ndarray) -> np.ndarray:
        rows = slice(*arrays["offsets"][user : user + 2])
        inputs = {
            "history.item_id": arrays["item_id"][rows], "history.category": arrays["category"][rows],
            "candidates.item_id": items, "candidates.category": arrays["item_category"][items],
        }  # fmt: skip
        return session.run(None, inputs)[0]

    return score


def deepctr_score(job: Job, arrays: Arrays) -> Score:
    """Score with DIN of DeepCTR-Torch, with random weights."""
    import torch
    from deepctr_torch.models import DIN
    from deepctr_torch_runner import columns

    torch.set_num_threads(1 if job.pool else job.threads)
    offsets = arrays["offsets"]
    window = int(np.diff(offsets).max())
    rows = {"item": len(arrays["item_category"]), "category": int(arrays["item_category"].max()) + 1}
    torch.manual_seed(1)
    model = DIN(
        columns(rows, dim=job.dim, window=window, auxiliary=False), ["item", "cat"], dnn_hidden_units=(200, 80),
        dnn_activation="prelu", att_hidden_size=(80, 40), att_activation="sigmoid",
    ).eval()  # fmt: skip
    slices = {name: slice(*bounds) for name, bounds in model.feature_index.items()}
    width = max(bounds.stop for bounds in slices.values())

    def score(user: int, items: np.ndarray) -> np.ndarray:
        begin, end = offsets[user : user + 2]
        row = np.zeros(width, np.float32)
        row[slices["hist_item"]][: end - begin] = arrays["item_id"][begin:end]
        row[slices["hist_cat"]][: end - begin] = arrays["category"][begin:end]
        row[slices["seq_length"]] = end - begin
        x = np.repeat(row[None], len(items), axis=0)
        x[:, slices["item"]] = items[:, None]
        x[:, slices["cat"]] = arrays["item_category"][items][:, None]
        with torch.inference_mode():
            return model(torch.from_numpy(x)).numpy().ravel()

    return score


ENGINES = {"onnx": onnx_score, "deepctr_torch": deepctr_score}


def make_app(score: Score, arrays: Arrays, pool: ThreadPoolExecutor | None) -> Starlette:
    """Return the application."""
    known_users, known_items = len(arrays["offsets"]) - 1, len(arrays["item_category"])

    def answer(body: bytes) -> bytes:
        wanted = orjson.loads(body)
        candidates = wanted["candidates"]
        items = np.array([of["item"] for of in candidates], np.int64)
        codes = np.where((items > 0) & (items < known_items), items, 0)
        user = wanted["user"] if 0 < wanted["user"] < known_users else 0
        ctr = score(user, codes)
        ecpm = ctr.astype(np.float64) * np.array([of.get("bid", 1.0) for of in candidates])
        scores, values = ctr.tolist(), ecpm.tolist()
        ranking = [
            {"item": candidates[k]["item"], "ctr": scores[k], "bid": candidates[k].get("bid", 1.0), "ecpm": values[k]}
            for k in np.argsort(-ecpm, kind="stable").tolist()
        ]  # fmt: skip
        return orjson.dumps({"ranking": ranking})

    async def rank(request: Request) -> Response:
        body = await request.body()
        if pool is None:
            content = answer(body)
        else:
            content = await asyncio.get_running_loop().run_in_executor(pool, answer, body)
        return Response(content, media_type="application/json")

    async def ready(_: Request) -> Response:
        return Response(b"{}", media_type="application/json")

    return Starlette(routes=[Route("/rank", rank, methods=["POST"]), Route("/v2/health/ready", ready)])


def main() -> None:
    """Serve the job named on the command line."""
    job = Job(**json.loads(Path(sys.argv[1]).read_text()))
    with np.load(job.arrays) as file:
        arrays = dict(file)
    score = ENGINES[job.engine](job, arrays)
    score(1, np.ones(100, np.int64))  # warms up
    pool = ThreadPoolExecutor(job.threads) if job.pool else None
    uvicorn.run(
        make_app(score, arrays, pool), host="127.0.0.1", port=job.port, access_log=False, log_level="warning",
        server_header=False, backlog=2048, timeout_keep_alive=75,
    )  # fmt: skip


if __name__ == "__main__":
    main()
