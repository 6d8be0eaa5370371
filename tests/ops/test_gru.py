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
from support.ops import assert_writings_agree, sharing
from support.ops import runs as jagged

from deep_interest.models.recurrent import GRU
from deep_interest.ops.gradients import adding_to_gradients
from deep_interest.ops.gru import _GRU, CELLS, final_states, plain_gru
from deep_interest.ops.gru_cpu import _work
from deep_interest.ops.jagged import Jagged, share_segments
from deep_interest.ops.kernels.gru import GROUP_SIZE
from deep_interest.ops.runtime.parallel import MAX_PARTITIONS, partition_count
from deep_interest.training.update_rules import Flat

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=2 * GROUP_SIZE + 3)


def problem(cell, lengths, *, dtype, inputs=4, hidden=5, seed=0):
    """A GRU, its input and its attention on jagged histories, with gradients to come."""
    torch.manual_seed(seed)
    total, runs = sum(lengths), jagged(lengths)
    gru = GRU(inputs, hidden, cell=cell)
    with torch.no_grad():
        gru.bias.normal_(std=0.5)
    given = torch.randn(total, inputs).to(dtype).requires_grad_()
    attention = None if cell == "gru" else torch.rand(total).to(dtype).requires_grad_()
    return gru.to(dtype), given, attention, runs


@pytest.mark.parametrize("cell", CELLS)
@given(lengths=LENGTHS)
@settings(max_examples=15, deadline=None)
def test_states_agree_with_the_equations(cell, lengths):
    gru, inputs, attention, runs = problem(cell, lengths, dtype=torch.float64)
    ours = gru(inputs, runs, attention).detach().numpy()
    values = {f"gru.{name}": value for name, value in reference.parameters(gru).items()}
    for start, end in zip(runs.offsets[:-1].tolist(), runs.offsets[1:].tolist(), strict=True):
        weights = None if attention is None else attention.detach().numpy()[start:end]
        expected = reference.gru_states(values, "gru", inputs.detach().numpy()[start:end], cell, weights)
        np.testing.assert_allclose(ours[start:end], expected, atol=1e-9)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("width", "hidden"), [(4, 1), (4, 5), (8, 8), (33, 17), (16, 32)])
@given(lengths=LENGTHS, last=st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_compiled_loop_and_its_gradients_agree_with_the_plain_one(cell, width, hidden, lengths, last):
    results = []
    for dtype in (torch.float32, torch.float64):  # compiled, plain
        gru, inputs, attention, runs = problem(cell, lengths, dtype=dtype, inputs=width, hidden=hidden)
        states = (gru.last if last else gru)(inputs, runs, attention)
        if len(inputs):  # else the plain last states are zeros that come from nowhere
            (states * torch.linspace(-1, 1, hidden, dtype=dtype)).sum().backward()
        leaves = [inputs, *([] if attention is None else [attention]), *gru.parameters()]
        results.append([states, *(leaf.grad if leaf.grad is not None else leaf * 0 for leaf in leaves)])
    for compiled, plain in zip(*results, strict=True):
        torch.testing.assert_close(compiled.double(), plain, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cell", CELLS)
@given(lengths=LENGTHS, seed=st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_last_states_without_gradients_are_those_with(cell, dtype, lengths, seed):
    """Of histories that several samples share, as the candidates of one user do."""
    gru, inputs, _, runs = problem(cell, lengths, dtype=dtype, seed=seed)
    owner = torch.randint(len(lengths), (2 * GROUP_SIZE + 5,)).sort().values
    pairs = share_segments(runs, owner)
    attention = None if cell == "gru" else torch.rand(int(pairs.offsets[-1]), dtype=dtype)
    expected = final_states(gru(inputs, pairs, attention), pairs)
    torch.testing.assert_close(gru.last(inputs, pairs, attention), expected)
    with sharing(3), torch.no_grad():
        torch.testing.assert_close(gru.last(inputs, pairs, attention), expected)


@pytest.mark.parametrize("cell", CELLS)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=2 * GROUP_SIZE + 3), data=st.data())
@settings(max_examples=10, deadline=None)
def test_histories_that_several_samples_share_have_the_gradients_of_all(cell, lengths, data):
    """The inputs' product is then made once a row, and the loops are given the gates."""
    gru = problem(cell, lengths, dtype=torch.float32, hidden=17)[0]
    weights = dict(gru.named_parameters())
    owner = torch.tensor(
        sorted(data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=9))), dtype=torch.int64
    )
    pairs = share_segments(jagged(lengths), owner)
    places = int(pairs.offsets[-1])

    def states(inputs, *others):
        own = {name: 0.3 * given for name, given in zip(weights, others, strict=False)}
        attention = [given.sigmoid() for given in others[len(own) :]]
        return torch.func.functional_call(gru, own, (inputs, pairs, *attention))

    shapes = [(sum(lengths), 4), *(weight.shape for weight in weights.values())]
    assert_writings_agree(states, *shapes, *([] if cell == "gru" else [(places,)]))


def test_the_number_of_threads_does_not_change_a_bit():
    lengths, found = np.random.default_rng(0).integers(0, 30, 70).tolist(), []
    for threads in (1, 3):
        gru, inputs, attention, runs = problem("augru", lengths, dtype=torch.float32)
        with sharing(threads):
            states = gru(inputs, runs, attention)
            states.sum().backward()
        found.append([states, *(leaf.grad for leaf in (inputs, attention, *gru.parameters()))])
    for one, three in zip(*found, strict=True):
        assert torch.equal(one, three)


@pytest.mark.parametrize("histories", [1, GROUP_SIZE, GROUP_SIZE + 1, 5 * GROUP_SIZE, 1000])
def test_every_part_has_a_group_of_histories(histories):
    weight = torch.empty(384, 128)
    parts = partition_count(_work(torch.arange(histories), 100 * histories, [weight, weight, weight[:, 0]]))
    assert 1 <= parts <= min(MAX_PARTITIONS, -(-histories // GROUP_SIZE))


@pytest.mark.parametrize("threads", [None, 3])  # None: the operation is one part
@pytest.mark.parametrize("shared", [False, True])  # a history by several samples
def test_gradients_are_added_to_the_parameters_own(threads, shared):
    found = []
    for in_place in (False, True):
        gru, inputs, _, runs = problem("augru", [4, 0, 7, 1], dtype=torch.float32)
        pairs = share_segments(runs, torch.tensor([0, 0, 2])) if shared else runs
        attention = torch.linspace(0, 1, int(pairs.offsets[-1]))
        laid = Flat(list(gru.parameters())) if in_place else None
        with (
            sharing(threads) if threads else nullcontext(),
            adding_to_gradients() if in_place else nullcontext(),
        ):
            for _ in range(2):
                gru(inputs, pairs, attention).square().sum().backward()
        found.append({name: parameter.grad for name, parameter in gru.named_parameters()})
        if laid is not None:
            assert all(
                grad.untyped_storage().data_ptr() == laid.gradient.untyped_storage().data_ptr()
                for grad in found[1].values()
            )
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected)


def test_a_frozen_weight_has_no_gradient_added():
    gru, inputs, attention, runs = problem("augru", [4, 2], dtype=torch.float32)
    laid = Flat(list(gru.parameters()))
    gru.state_weight.requires_grad_(requires_grad=False)
    with adding_to_gradients():
        gru(inputs, runs, attention).sum().backward()
    assert not gru.state_weight.grad.any()
    assert gru.input_weight.grad.any()
    assert laid.gradient.any()


def test_a_weight_that_changes_before_backward_is_an_error():
    gru, inputs, attention, runs = problem("augru", [4, 2], dtype=torch.float32)
    states = gru(inputs, runs, attention)
    with torch.no_grad():
        gru.state_weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        states.sum().backward()


def with_attention(cell, value, *, like):
    """The states of a cell that has the weights of another and one attention everywhere."""
    gru, inputs, _, runs = like
    other = GRU(4, 5, cell=cell).to(inputs.dtype)
    other.load_state_dict(gru.state_dict())
    return other(inputs, runs, torch.full((len(inputs),), value, dtype=inputs.dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["compiled", "plain"])
def test_limits_of_the_attention(dtype):
    like = problem("gru", [4, 0, 7, 1], dtype=dtype)
    plain = like[0](like[1], like[3])
    torch.testing.assert_close(with_attention("augru", 1.0, like=like), plain, atol=1e-6, rtol=0)
    torch.testing.assert_close(with_attention("augru_code", 0.0, like=like), plain, atol=1e-6, rtol=0)
    assert not with_attention(
        "augru", 0.0, like=like
    ).any()  # a_t = 0 leaves the state, and the first one is 0


def test_agru_without_attention_leaves_the_state_and_with_all_of_it_forgets():
    gru, inputs, _, runs = problem("agru", [5], dtype=torch.float64)
    assert not gru(inputs, runs, torch.zeros(5, dtype=torch.float64)).any()
    steady = gru(inputs, runs, torch.tensor([1.0, 0, 0, 1, 0], dtype=torch.float64))
    torch.testing.assert_close(steady[0], steady[2], rtol=0, atol=0)
    assert not torch.allclose(steady[2], steady[3])


def test_not_a_number_is_not_hidden():
    gru, inputs, _, runs = problem("gru", [3, 2], dtype=torch.float32)
    with torch.no_grad():
        inputs[1] = torch.nan
    states = gru(inputs, runs)
    assert states[1:3].isnan().all()
    assert not states[[0, 3, 4]].isnan().any()


def test_final_states_of_empty_histories_are_zero():
    states = torch.arange(6.0).reshape(3, 2)
    torch.testing.assert_close(
        final_states(states, jagged([0, 2, 0, 1])), torch.tensor([[0.0, 0], [2, 3], [0, 0], [4, 5]])
    )


def test_no_behaviour_at_all():
    gru, inputs, attention, runs = problem("augru", [0, 0], dtype=torch.float32)
    gru(inputs, runs, attention).sum().backward()
    assert plain_gru(gru.bias.new_empty(0, 15), gru.state_weight, attention, runs.offsets, "augru").shape == (
        0,
        5,
    )


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("hidden", "lengths"), [(5, [3, 0, 1, 4, 0]), (18, [2] * 17), (16, [1]), (40, [2, 3])]
)
def test_the_kernels_for_gpus_agree_with_the_plain_loop(cell, hidden, lengths, last):
    """On a GPU if there is one; else by Triton's interpreter on the CPU."""
    pytest.importorskip("triton", reason="Triton runs on Linux only")
    from deep_interest.ops.kernels import gru_triton

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    runs = jagged(lengths)
    rows, width = sum(lengths), (2 if cell == "agru" else 3) * hidden
    leaves = [torch.randn(rows, width), 0.5 * torch.randn(width, hidden), torch.rand(rows)]
    if cell == "gru":
        leaves[2] = torch.zeros(0)
    results = []
    for dtype, place, loops in ((torch.float32, device, gru_triton), (torch.float64, "cpu", None)):
        given = [leaf.detach().to(place, dtype).clone().requires_grad_() for leaf in leaves]
        if loops is None:
            states = plain_gru(*given, runs.offsets, cell)
            states = final_states(states, runs) if last else states
        else:
            gates, weight, attention = given
            states = _GRU.apply(gates, attention, Jagged(runs.offsets.to(place)), cell, last, loops, weight)
        weigh = torch.linspace(-1, 1, hidden, dtype=dtype, device=place)
        (states * weigh).sum().backward()
        results.append([states, *(leaf.grad if leaf.grad is not None else leaf * 0 for leaf in given)])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours.cpu().double(), plain, atol=1e-5, rtol=1e-5)


def test_the_kernels_fit_any_gpu(tmp_path):
    """Compiled, not run: 48 KiB of shared memory is what every GPU grants a program."""
    pytest.importorskip("triton", reason="Triton runs on Linux only")
    outside = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, Path(reference.__file__).with_name("compile_kernels.py"), "36,128,200"]
    printed = subprocess.run(command, env=outside, capture_output=True, text=True, check=True).stdout
    found = [json.loads(line) for line in printed.splitlines()]
    assert len(found) == 6
    for kernel in found:
        assert 0 < max(kernel["shared"].values()) <= 48 << 10, kernel
