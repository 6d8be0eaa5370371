"""With ``NUMBA_DISABLE_JIT=1`` the kernels run as Python functions, for stepping through them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

TESTS = Path(__file__).parents[1]
PROGRAM = """
import types

import numpy as np
import torch
from support.ops import assert_implementations_agree, jagged, partitioned, use_engine

from deep_interest.ops.activations import dice, prelu
from deep_interest.ops.adam import adam, adam_rows
from deep_interest.ops.attention import attention_pool, pair_mlp
from deep_interest.ops.attention_bfloat16 import attention_pool_bfloat16
from deep_interest.ops.buckets import Hashing, bucket_sums, distinct
from deep_interest.ops.embedding import lookup
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.gru import GRUWeights, gru, gru_last_states
from deep_interest.ops.histories import gather_slices, history_slices
from deep_interest.ops.jagged import share_segments
from deep_interest.ops.jagged_products import circular_dot, segment_dot, shifted_dot, weighted_sum
from deep_interest.ops.kernels.mlp import mlp_forward
from deep_interest.ops.loss import log_loss
from deep_interest.ops.mlp import Layer, Layers, mlp
from deep_interest.ops.packed_tables import pack_table
from deep_interest.ops.search import dot_scores, hamming_scores, newest_matching, sim_hash, top_scores
from deep_interest.ops.segments import expand, segment_repeat, segment_softmax, segment_sum
from deep_interest.ops.target_attention import target_attention

assert isinstance(mlp_forward, types.FunctionType)
LENGTHS = [7, 0, 2, 1]  # a segment with a matrix of its own in the factorised layer, and shorter ones
own, N, B = jagged(LENGTHS), sum(LENGTHS), len(LENGTHS)
shared = share_segments(own, torch.tensor([0, 0, 2, 3, 3]))
M = int(shared.offsets[-1])


def layers(*parameters):
    slope = parameters[4]
    return Layers([Layer(*parameters[:2], "prelu", slope), Layer(*parameters[2:4], "sigmoid")])


def net_shapes(inputs):
    return (18, inputs), (18,), (1, 18), (1,), (18,)


def check(name, operation, *shapes):
    assert_implementations_agree(operation, *shapes, threads=(1, 2))
    print(name)


check("segment_sum", lambda v: segment_sum(v, own), (N, 3))
check("segment_softmax", lambda s: segment_softmax(s, own), (N,))
check("segment_repeat", lambda v: segment_repeat(v, own), (B, 3))
check("expand", lambda v: expand(v, shared), (N, 3))
check("weighted_sum", lambda w, v: weighted_sum(w, v, own), (N,), (N, 3))
check("segment_dot", lambda v, q: segment_dot(v, q, own), (N, 3), (B, 3))
check("shifted_dot", lambda v, a, b: torch.cat(shifted_dot(v, [a, b], own)), *[(N, 3)] * 3)
check("circular_dot", lambda v, o: circular_dot(v, o, 3), (N, 3), (N, 3))
check("prelu", prelu, (N, 3), (3,))
averages = torch.zeros(3), torch.ones(3)
for training in (True, False):
    options = {"training": training, "momentum": 0.0, "eps": 1e-5}
    check("dice", lambda s, a: dice(s, a, *(x.to(s) for x in averages), **options), (N, 3), (3,))
check("mlp", lambda x, *p: mlp(x, layers(*p)), (N, 5), *net_shapes(5))
for segments, rows in ((own, B), (shared, 5)):
    for times in (3, 4):
        check("pair_mlp", lambda v, q, *p: pair_mlp(v, q, layers(*p), segments), (N, 5), (rows, 5), *net_shapes(5 * times))
    for scale in (None, 0.5):
        check(
            "attention_pool",
            lambda v, q, *p: attention_pool(v, q, layers(*p), segments, softmax_scale=scale),
            (N, 5), (rows, 5), *net_shapes(15),
        )
for variant, gates in (("gru", 3), ("agru", 2), ("augru", 3), ("augru_code", 3)):
    shapes = (N, 5), (gates * 4, 5), (gates * 4, 4), (gates * 4,)
    attention = () if variant == "gru" else ((N,),)
    for operation in (gru, gru_last_states):
        def run(x, *weights):
            gate = torch.sigmoid(weights[3]) if attention else x.new_empty(0)
            return operation(x, GRUWeights(*weights[:3]), gate, own, variant)

        check(operation.__name__, run, *shapes, *attention)
        with torch.no_grad(), partitioned(2):
            tensors = [torch.randn(shape) for shape in (*shapes, *attention)]
            ours = run(*tensors)
            torch.testing.assert_close(ours.double(), run(*(tensor.double() for tensor in tensors)), atol=1e-5, rtol=1e-5)

fingerprints, buckets = torch.arange(N) * 2654435761 % 64, torch.arange(8)
for segments, rows in ((own, B), (shared, 5)):
    check("target_attention", lambda v, q: target_attention(v, q, segments), (N, 5), (rows, 2, 5))
    check(
        "bucket_sums",
        lambda v: bucket_sums(v, torch.arange(N) % 4, (fingerprints, buckets[:rows]), segments, Hashing(3, 2)),
        (4, 5),
    )
    fields = [(torch.randn(4, 3), torch.arange(N) % 4), (torch.randn(20, 2), torch.arange(N))]
    queries, targets = torch.randn(rows, 5), torch.arange(rows)
    searches = {
        "dot_scores": lambda: dot_scores(fields, queries, segments),
        "sim_hash": lambda: sim_hash(fields, torch.randn(5, 9, generator=torch.Generator().manual_seed(0))),
        "hamming_scores": lambda: hamming_scores(fingerprints, buckets[:rows], segments),
        "top_scores": lambda: top_scores(torch.arange(segments.total) * 7.0 % 5, segments, 2).positions,
        "distinct": lambda: torch.stack([(d := distinct(torch.arange(N) % 4, 9, "item")).codes[d.inverse]]),
        "newest_matching": lambda: newest_matching(fields[0][1], targets, segments, 1).positions,
    }
    for name, search in searches.items():
        with partitioned(2):
            ours = search()
        with use_engine("plain"):
            torch.testing.assert_close(ours, search(), atol=1e-5, rtol=1e-5)
        print(name)
packed = [pack_table(torch.randn(9, 3), of, name=of) for of in ("int8", "float16", "bfloat16")]
with partitioned(2):
    ours = lookup(packed, [{0: torch.arange(9), 1: torch.arange(9), 2: torch.arange(9)}])[0]
torch.testing.assert_close(ours, torch.cat([table.all_rows() for table in packed], dim=1))
print("pack_table")

unit = Layers([Layer(torch.randn(18, 15), torch.randn(18), "relu"), Layer(torch.randn(3, 18), torch.randn(3), "relu"),
               Layer(torch.randn(1, 3), torch.randn(1))])
v, q = torch.randn(N, 5), torch.randn(B, 5)
with torch.inference_mode():
    ours = attention_pool_bfloat16(v, q, unit, own)
    with use_engine("plain"):
        torch.testing.assert_close(ours, attention_pool_bfloat16(v, q, unit, own), rtol=2e-3, atol=2e-3)
print("attention_pool_bfloat16")
logits, labels = torch.randn(6), torch.tensor([0.0, 1, 0, 1, 1, 0])
for ours, expected in zip(log_loss(logits, labels), log_loss(logits.double(), labels.double())):
    torch.testing.assert_close(ours.double(), expected, atol=1e-6, rtol=1e-5)
print("log_loss")


def trained(engine):
    '''A table and a vector after two steps of Adam on histories gathered from a log.'''
    torch.manual_seed(0)
    table, vector = torch.randn(9, 3, requires_grad=True), torch.randn(8)
    moments, dense = torch.zeros(2, 9, 3), torch.zeros(2, 8)
    log = {"item": torch.tensor([1, 8, 1, 3, 0, 3, 3], dtype=torch.int32)}
    options = {"learning_rate": 0.1, "betas": (0.9, 0.999), "eps": 1e-8}
    with use_engine(engine), partitioned(2):
        for step in (1, 2):
            slices = history_slices(
                torch.tensor([0, 1, 2]), torch.tensor([0, 0, 1]).int(), torch.tensor([2, 2, 4]).int(), torch.tensor([0, 3, 7]),
                max_len=3,
            )
            segments = jagged(np.diff(slices.offsets).tolist())
            codes = gather_slices(log, torch.from_numpy(slices.starts), segments)["item"]
            accumulator = GradientAccumulator([table])
            one, other = lookup([table], [{0: codes}, {0: codes[:2]}], accumulator=accumulator)
            (one.square().sum() + other.sum()).backward()
            with torch.no_grad():
                adam_rows(table, *accumulator.coalesce(), *moments, **options, step=step)
                adam(vector, vector.square(), *dense, **options, step=step)
    return slices.starts, slices.offsets, slices.owner, codes, table.detach(), moments, vector, dense


for ours, expected in zip(trained("compiled"), trained("plain")):
    torch.testing.assert_close(torch.as_tensor(ours), torch.as_tensor(expected), atol=1e-5, rtol=1e-5)
print("history_slices gather_slices lookup coalesce adam_rows adam")
"""
OPERATIONS = {
    "segment_sum", "segment_softmax", "segment_repeat", "expand", "weighted_sum", "segment_dot", "shifted_dot",
    "circular_dot", "prelu", "dice", "mlp", "pair_mlp", "attention_pool", "attention_pool_bfloat16", "gru", "gru_last_states", "log_loss",
    "history_slices", "gather_slices", "lookup", "coalesce", "adam_rows", "adam", "target_attention", "bucket_sums",
    "distinct", "dot_scores", "sim_hash", "hamming_scores", "top_scores", "newest_matching", "pack_table",
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.slow
def test_without_compilation_every_operation_agrees_with_its_plain_implementation():
    assert not config.DISABLE_JIT
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], text=True, capture_output=True, timeout=600, check=False,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert set(found.stdout.split()) == OPERATIONS
