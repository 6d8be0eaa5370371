"""`torch.autograd.gradcheck` of every public operation in float64, and compiled against plain gradients in float32."""

from functools import partial

import pytest
import torch
from support.ops import assert_implementations_agree, jagged, layers_of, parameter_shapes

from deep_interest.ops.activations import dice, prelu
from deep_interest.ops.attention import attention_pool, pair_mlp, pool_by_scores
from deep_interest.ops.buckets import Hashing, bucket_sums
from deep_interest.ops.embedding import lookup
from deep_interest.ops.gru import VARIANTS, GRUWeights, gru, gru_last_states
from deep_interest.ops.jagged import share_segments
from deep_interest.ops.jagged_products import circular_dot, segment_dot, shifted_dot, weighted_sum
from deep_interest.ops.loss import log_loss
from deep_interest.ops.mlp import mlp
from deep_interest.ops.segments import expand, segment_repeat, segment_softmax, segment_sum
from deep_interest.ops.target_attention import target_attention

OWN = jagged([3, 0, 2, 1])
SHARED = share_segments(OWN, torch.tensor([0, 0, 2, 3]))
N, P, B, D, H = OWN.total, SHARED.total, OWN.size, 3, 2
ACTIVATIONS = ["prelu", "sigmoid"]


def dice_of(x, alpha, *, training):
    mean, variance = x.new_zeros(D), x.new_ones(D)
    return dice(x, alpha, mean, variance, training=training, momentum=0.1, eps=1e-2)


def mlp_of(x, *parameters):
    return mlp(x, layers_of(parameters, ACTIVATIONS))


def pairs_of(values, queries, *parameters, operation, segments):
    return operation(values, queries, layers_of(parameters, ACTIVATIONS), segments)


def gru_of(inputs, input_weight, state_weight, bias, *attention, operation, segments, variant):
    weights = GRUWeights(0.3 * input_weight, 0.3 * state_weight, bias)
    a = attention[0].sigmoid() if attention else inputs.new_empty(0)
    return operation(inputs, weights, a, segments, variant)


def bucket_sums_of(values, *, segments):
    fingerprints, queries = (
        torch.tensor([0b0110, 0b0010, 0b1110, 0b0001, 0b0111, 0b0110]),
        torch.tensor([0b0110, 2, 7, 7]),
    )
    index = torch.tensor([0, 2, 1, 2, 2, 0])
    return bucket_sums(values, index, (fingerprints, queries), segments, Hashing(rounds=2, bits=2))


class DenseGradient(torch.autograd.Function):
    """The identity; gradcheck does not accept sparse gradients."""

    @staticmethod
    def forward(ctx, table):
        return table.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.to_dense()


def lookup_of(first, second):
    tables = [DenseGradient.apply(table) for table in (first, second)]
    groups = [{0: torch.tensor([4, 0, 4]), 1: torch.tensor([1, 1, 2])}, {1: torch.tensor([3])}]
    return torch.cat([rows.flatten() for rows in lookup(tables, groups)])


PAIR_SHAPES = ((N, D), (B, D), *parameter_shapes([4 * D, 4, 1]))
CASES = {
    "prelu": (prelu, (5, D), (D,)),
    "dice in training": (partial(dice_of, training=True), (5, D), (D,)),
    "dice in evaluation": (partial(dice_of, training=False), (5, D), (D,)),
    "lookup": (lookup_of, (5, D), (4, 2)),
    "segment_sum": (lambda x: segment_sum(x, OWN), (N, D)),
    "segment_softmax": (lambda x: segment_softmax(x, OWN), (N,)),
    "segment_repeat": (lambda x: segment_repeat(x, OWN), (B, D)),
    "expand": (lambda x: expand(x, SHARED), (N, D)),
    "weighted_sum": (lambda w, x: weighted_sum(w, x, OWN), (N,), (N, D)),
    "segment_dot": (lambda x, q: segment_dot(x, q, OWN), (N, D), (B, D)),
    "shifted_dot": (lambda x, a, b: torch.stack(shifted_dot(x, [a, b], OWN)), (N, D), (N, D), (N, D)),
    "circular_dot": (lambda x, y: circular_dot(x, y, 2), (N, D), (N, D)),
    "mlp": (mlp_of, (5, D), *parameter_shapes([D, 4, 2])),
    "pool_by_scores": (lambda s, x: pool_by_scores(s, x, OWN, softmax_scale=0.5), (N,), (N, D)),
}
for name, segments in (("own", OWN), ("shared", SHARED)):
    CASES[f"target_attention, {name} segments"] = (
        partial(lambda x, q, *, segments: target_attention(x, q, segments), segments=segments), (N, D), (B, 2, D)
    )  # fmt: skip
    CASES[f"bucket_sums, {name} segments"] = partial(bucket_sums_of, segments=segments), (3, D)
    for scale in (None, 0.5):
        pool = partial(attention_pool, softmax_scale=scale)
        CASES[f"attention_pool, {name} segments, scale {scale}"] = (
            partial(pairs_of, operation=pool, segments=segments), *PAIR_SHAPES
        )  # fmt: skip
    CASES[f"pair_mlp, {name} segments"] = (
        partial(pairs_of, operation=pair_mlp, segments=segments), *PAIR_SHAPES
    )  # fmt: skip
    for variant in VARIANTS:
        gates = (2 if variant == "agru" else 3) * H
        shapes = (N, D), (gates, D), (gates, H), (gates,)
        attention = () if variant == "gru" else ((segments.total,),)
        for operation in (gru, gru_last_states):
            CASES[f"{operation.__name__}, {variant}, {name} segments"] = (
                partial(gru_of, operation=operation, segments=segments, variant=variant), *shapes, *attention
            )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_plain_gradients_pass_gradcheck(name):
    operation, *shapes = CASES[name]
    torch.manual_seed(0)
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(operation, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compiled_values_and_gradients_agree_with_the_plain_ones(name):
    operation, *shapes = CASES[name]
    assert_implementations_agree(operation, *shapes)


def test_the_gradient_of_the_log_loss_passes_gradcheck():
    torch.manual_seed(0)
    labels = torch.tensor([1.0, 0, 1], dtype=torch.float64)

    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx, logits):
            loss, ctx.gradient = log_loss(logits, labels)
            return loss

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.gradient

    assert torch.autograd.gradcheck(Loss.apply, torch.randn(3, dtype=torch.float64, requires_grad=True))
