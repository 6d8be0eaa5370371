import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import reference
from support.ops import assert_implementations_agree, jagged, partitioned

from deep_interest.models.recurrent import GRU
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.gru import _GRU, VARIANTS, final_states, plain_gru
from deep_interest.ops.gru_cpu import _work
from deep_interest.ops.jagged import Jagged, share_segments
from deep_interest.ops.kernels.gru import GROUP_SIZE
from deep_interest.ops.runtime.parallel import MAX_PARTITIONS, partition_count
from deep_interest.training.update_rules import Flat

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=2 * GROUP_SIZE + 3)


def problem(variant, lengths, *, dtype, inputs=4, hidden=5, seed=0):
    """A GRU, its input and its attention on jagged histories, with gradients to come."""
    torch.manual_seed(seed)
    total, histories = sum(lengths), jagged(lengths)
    gru = GRU(inputs, hidden, variant=variant)
    with torch.no_grad():
        gru.bias.normal_(std=0.5)
    values = torch.randn(total, inputs).to(dtype).requires_grad_()
    attention = None if variant == "gru" else torch.rand(total).to(dtype).requires_grad_()
    return gru.to(dtype), values, attention, histories


@pytest.mark.parametrize("variant", VARIANTS)
@given(lengths=LENGTHS)
@settings(max_examples=15, deadline=None)
def test_states_agree_with_the_equations(variant, lengths):
    gru, inputs, attention, histories = problem(variant, lengths, dtype=torch.float64)
    ours = gru(inputs, histories, attention).detach().numpy()
    values = {f"gru.{name}": value for name, value in reference.parameters(gru).items()}
    for start, end in zip(histories.offsets[:-1].tolist(), histories.offsets[1:].tolist(), strict=True):
        weights = None if attention is None else attention.detach().numpy()[start:end]
        expected = reference.gru_states(values, "gru", inputs.detach().numpy()[start:end], variant, weights)
        np.testing.assert_allclose(ours[start:end], expected, atol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("width", "hidden"), [(4, 1), (4, 5), (8, 8), (33, 17), (16, 32)])
@given(lengths=LENGTHS, last=st.booleans())
@settings(max_examples=20, deadline=None)
def test_compiled_states_and_gradients_agree_with_the_plain_ones(variant, width, hidden, lengths, last):
    results = []
    for dtype in (torch.float32, torch.float64):  # compiled, plain
        gru, inputs, attention, histories = problem(
            variant, lengths, dtype=dtype, inputs=width, hidden=hidden
        )
        states = (gru.last if last else gru)(inputs, histories, attention)
        if len(inputs):  # else the plain last states are zeros that come from nowhere
            (states * torch.linspace(-1, 1, hidden, dtype=dtype)).sum().backward()
        leaves = [inputs, *([] if attention is None else [attention]), *gru.parameters()]
        results.append([states, *(leaf.grad if leaf.grad is not None else leaf * 0 for leaf in leaves)])
    for compiled, plain in zip(*results, strict=True):
        torch.testing.assert_close(compiled.double(), plain, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", VARIANTS)
@given(lengths=LENGTHS, seed=st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_last_states_are_the_same_with_and_without_gradients(variant, dtype, lengths, seed):
    """Of histories that several samples share, as the candidates of one user do."""
    gru, inputs, _, histories = problem(variant, lengths, dtype=dtype, seed=seed)
    owner = torch.randint(len(lengths), (2 * GROUP_SIZE + 5,)).sort().values
    pairs = share_segments(histories, owner)
    attention = None if variant == "gru" else torch.rand(int(pairs.offsets[-1]), dtype=dtype)
    expected = final_states(gru(inputs, pairs, attention), pairs)
    torch.testing.assert_close(gru.last(inputs, pairs, attention), expected)
    with partitioned(3), torch.no_grad():
        torch.testing.assert_close(gru.last(inputs, pairs, attention), expected)


@pytest.mark.parametrize("variant", VARIANTS)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=2 * GROUP_SIZE + 3), data=st.data())
@settings(max_examples=10, deadline=None)
@pytest.mark.slow
def test_shared_histories_sum_the_gradients_of_all_samples(variant, lengths, data):
    """The backend then starts from the gates, which are computed once per behaviour."""
    gru = problem(variant, lengths, dtype=torch.float32, hidden=17)[0]
    weights = dict(gru.named_parameters())
    owner = torch.tensor(
        sorted(data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=9))), dtype=torch.int64
    )
    pairs = share_segments(jagged(lengths), owner)
    steps = int(pairs.offsets[-1])

    def states(inputs, *others):
        own = {name: 0.3 * tensor for name, tensor in zip(weights, others, strict=False)}
        attention = [tensor.sigmoid() for tensor in others[len(own) :]]
        return torch.func.functional_call(gru, own, (inputs, pairs, *attention))

    shapes = [(sum(lengths), 4), *(weight.shape for weight in weights.values())]
    assert_implementations_agree(states, *shapes, *([] if variant == "gru" else [(steps,)]))


def test_the_number_of_threads_changes_no_bit_of_a_gru():
    lengths, found = np.random.default_rng(0).integers(0, 30, 70).tolist(), []
    for threads in (1, 3):
        gru, inputs, attention, histories = problem("augru", lengths, dtype=torch.float32)
        with partitioned(threads):
            states = gru(inputs, histories, attention)
            states.sum().backward()
        found.append([states, *(leaf.grad for leaf in (inputs, attention, *gru.parameters()))])
    for one, three in zip(*found, strict=True):
        assert torch.equal(one, three)


@pytest.mark.parametrize("histories", [1, GROUP_SIZE, GROUP_SIZE + 1, 5 * GROUP_SIZE, 1000])
def test_every_partition_has_a_group_of_histories(histories):
    weight = torch.empty(384, 128)
    work = _work(torch.arange(histories), 100 * histories, [weight, weight, weight[:, 0]])
    assert 1 <= partition_count(work) <= min(MAX_PARTITIONS, -(-histories // GROUP_SIZE))


@pytest.mark.parametrize("threads", [None, 3])  # None: one partition
@pytest.mark.parametrize("shared", [False, True])  # histories of several samples
def test_accumulated_gradients_are_those_of_autograd(threads, shared):
    found = []
    for in_place in (False, True):
        gru, inputs, _, histories = problem("augru", [4, 0, 7, 1], dtype=torch.float32)
        pairs = share_segments(histories, torch.tensor([0, 0, 2])) if shared else histories
        attention = torch.linspace(0, 1, int(pairs.offsets[-1]))
        flat = Flat(list(gru.parameters())) if in_place else None
        gru.accumulator = GradientAccumulator([]) if in_place else None
        with partitioned(threads) if threads else nullcontext():
            for _ in range(2):  # the second backward pass adds to the first
                gru(inputs, pairs, attention).square().sum().backward()
        found.append({name: parameter.grad for name, parameter in gru.named_parameters()})
        if flat is not None:
            assert all(
                grad.untyped_storage().data_ptr() == flat.gradient.untyped_storage().data_ptr()
                for grad in found[1].values()
            )
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected)


def test_a_frozen_weight_accumulates_no_gradient():
    gru, inputs, attention, histories = problem("augru", [4, 2], dtype=torch.float32)
    flat = Flat(list(gru.parameters()))
    gru.state_weight.requires_grad_(requires_grad=False)
    gru.accumulator = GradientAccumulator([])
    gru(inputs, histories, attention).sum().backward()
    assert not gru.state_weight.grad.any()
    assert gru.input_weight.grad.any()
    assert flat.gradient.any()


def test_changing_a_weight_before_backward_raises():
    gru, inputs, attention, histories = problem("augru", [4, 2], dtype=torch.float32)
    states = gru(inputs, histories, attention)
    with torch.no_grad():
        gru.state_weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        states.sum().backward()


def with_attention(variant, value, *, like):
    """The states of a variant with the weights of another GRU and the same attention everywhere."""
    gru, inputs, _, histories = like
    other = GRU(4, 5, variant=variant).to(inputs.dtype)
    other.load_state_dict(gru.state_dict())
    return other(inputs, histories, torch.full((len(inputs),), value, dtype=inputs.dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["compiled", "plain"])
def test_attention_of_0_or_1_gives_a_plain_gru_or_no_update(dtype):
    like = problem("gru", [4, 0, 7, 1], dtype=dtype)
    plain = like[0](like[1], like[3])
    torch.testing.assert_close(with_attention("augru", 1.0, like=like), plain, atol=1e-6, rtol=0)
    torch.testing.assert_close(with_attention("augru_code", 0.0, like=like), plain, atol=1e-6, rtol=0)
    assert not with_attention("augru", 0.0, like=like).any()  # a_t = 0 keeps the state, which is 0 at first


def test_agru_keeps_the_state_at_attention_0_and_forgets_it_at_1():
    gru, inputs, _, histories = problem("agru", [5], dtype=torch.float64)
    assert not gru(inputs, histories, torch.zeros(5, dtype=torch.float64)).any()
    steady = gru(inputs, histories, torch.tensor([1.0, 0, 0, 1, 0], dtype=torch.float64))
    torch.testing.assert_close(steady[0], steady[2], rtol=0, atol=0)
    assert not torch.allclose(steady[2], steady[3])


def test_states_propagate_nan():
    gru, inputs, _, histories = problem("gru", [3, 2], dtype=torch.float32)
    with torch.no_grad():
        inputs[1] = torch.nan
    states = gru(inputs, histories)
    assert states[1:3].isnan().all()
    assert not states[[0, 3, 4]].isnan().any()


def test_final_states_of_empty_histories_are_zero():
    states = torch.arange(6.0).reshape(3, 2)
    torch.testing.assert_close(
        final_states(states, jagged([0, 2, 0, 1])), torch.tensor([[0.0, 0], [2, 3], [0, 0], [4, 5]])
    )


def test_a_batch_of_empty_histories_has_no_states():
    gru, inputs, attention, histories = problem("augru", [0, 0], dtype=torch.float32)
    gru(inputs, histories, attention).sum().backward()
    assert plain_gru(
        gru.bias.new_empty(0, 15), gru.state_weight, attention, histories.offsets, "augru"
    ).shape == (
        0,
        5,
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("hidden", "lengths"),
    [
        (5, [3, 0, 1, 4, 0]),
        *(
            pytest.param(hidden, lengths, marks=pytest.mark.slow)
            for hidden, lengths in ((18, [2] * 17), (16, [1]), (40, [2, 3]))
        ),
    ],
)
def test_triton_kernels_agree_with_the_plain_implementation(variant, hidden, lengths, last):
    """On a GPU if one is available, else by Triton's interpreter on the CPU."""
    pytest.importorskip("triton", reason="Triton histories on Linux only")
    from deep_interest.ops.kernels import gru_triton

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    histories = jagged(lengths)
    rows, width = sum(lengths), (2 if variant == "agru" else 3) * hidden
    leaves = [torch.randn(rows, width), 0.5 * torch.randn(width, hidden), torch.rand(rows)]
    if variant == "gru":
        leaves[2] = torch.zeros(0)
    results = []
    for dtype, where, backend in ((torch.float32, device, gru_triton), (torch.float64, "cpu", None)):
        arguments = [leaf.detach().to(where, dtype).clone().requires_grad_() for leaf in leaves]
        if backend is None:
            states = plain_gru(*arguments, histories.offsets, variant)
            states = final_states(states, histories) if last else states
        else:
            gates, weight, attention = arguments
            on_device = Jagged(histories.offsets.to(where))
            states = _GRU.apply(gates, attention, on_device, variant, last, backend, None, weight)
        weights = torch.linspace(-1, 1, hidden, dtype=dtype, device=where)
        (states * weights).sum().backward()
        results.append([states, *(leaf.grad if leaf.grad is not None else leaf * 0 for leaf in arguments)])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours.cpu().double(), plain, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.nightly
def test_triton_kernels_fit_the_shared_memory_of_any_gpu(tmp_path):
    """Compiled, not run: every GPU grants a program 48 KiB of shared memory."""
    pytest.importorskip("triton", reason="Triton histories on Linux only")
    outside = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, Path(reference.__file__).with_name("compile_kernels.py"), "36,128,200"]
    printed = subprocess.run(command, env=outside, capture_output=True, text=True, check=True).stdout
    found = [json.loads(line) for line in printed.splitlines()]
    assert len(found) == 6
    for kernel in found:
        assert 0 < max(kernel["shared"].values()) <= 48 << 10, kernel
