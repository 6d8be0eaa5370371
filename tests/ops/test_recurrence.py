import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import reference
from support.ops import assert_writings_agree, sharing
from support.ops import runs as jagged

from deep_interest.models.recurrent import GRU
from deep_interest.ops.recurrence import CELLS, _Loops, final_states, plain_recurrence
from deep_interest.ops.recurrence_cpu import GROUP
from deep_interest.ops.runs import views_of

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=2 * GROUP + 3)


def problem(cell, lengths, *, dtype, hidden=5, seed=0):
    """A GRU, its input and its attention on jagged histories, with gradients to come."""
    torch.manual_seed(seed)
    total, runs = sum(lengths), jagged(lengths)
    gru = GRU(4, hidden, cell=cell)
    with torch.no_grad():
        gru.bias.normal_(std=0.5)
    inputs = torch.randn(total, 4).to(dtype).requires_grad_()
    attention = None if cell == "gru" else torch.rand(total).to(dtype).requires_grad_()
    return gru.to(dtype), inputs, attention, runs


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
@pytest.mark.parametrize("hidden", [1, 5, 8])
@given(lengths=LENGTHS)
@settings(max_examples=15, deadline=None)
def test_the_compiled_loop_and_its_gradients_agree_with_the_plain_one(cell, hidden, lengths):
    results = []
    for dtype in (torch.float32, torch.float64):  # compiled, plain
        gru, inputs, attention, runs = problem(cell, lengths, dtype=dtype, hidden=hidden)
        states = gru(inputs, runs, attention)
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
    owner = torch.randint(len(lengths), (2 * GROUP + 5,)).sort().values
    pairs = views_of(runs, owner)
    attention = None if cell == "gru" else torch.rand(int(pairs.offsets[-1]), dtype=dtype)
    expected = final_states(gru(inputs, pairs, attention), pairs)
    torch.testing.assert_close(gru.last(inputs, pairs, attention), expected)
    with sharing(3), torch.no_grad():
        torch.testing.assert_close(gru.last(inputs, pairs, attention), expected)


@pytest.mark.parametrize("cell", CELLS)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=2 * GROUP + 3), data=st.data())
@settings(max_examples=10, deadline=None)
def test_histories_that_several_samples_share_have_the_gradients_of_all(cell, lengths, data):
    """The inputs' product is then made once a row, and the loops are given the gates."""
    gru = problem(cell, lengths, dtype=torch.float32, hidden=17)[0]
    owner = torch.tensor(
        sorted(data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=9))), dtype=torch.int64
    )
    pairs = views_of(jagged(lengths), owner)
    places = int(pairs.offsets[-1])

    def states(inputs, *attention):
        return gru.to(inputs.dtype)(inputs, pairs, *(a.sigmoid() for a in attention))

    assert_writings_agree(states, (sum(lengths), 4), *([] if cell == "gru" else [(places,)]))


def test_the_number_of_threads_does_not_change_a_bit():
    lengths = np.random.default_rng(0).integers(0, 30, 70).tolist()
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            gru, inputs, attention, runs = problem("augru", lengths, dtype=torch.float32)
            states = gru(inputs.detach(), runs, attention)
            states.sum().backward()
            found.append((states, attention.grad))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


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
    assert plain_recurrence(
        gru.bias.new_empty(0, 15), gru.state_weight, attention, runs.offsets, "augru"
    ).shape == (0, 5)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("hidden", "lengths"), [(5, [3, 0, 1, 4]), (18, [2] * 17), (16, [1])])
def test_the_kernels_for_gpus_agree_with_the_plain_loop(cell, hidden, lengths):
    """On a GPU if there is one; else by Triton's interpreter on the CPU."""
    pytest.importorskip("triton", reason="Triton runs on Linux only")
    from deep_interest.ops import recurrence_cuda

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    offsets = jagged(lengths).offsets
    rows, gates = sum(lengths), (2 if cell == "agru" else 3) * hidden
    leaves = [torch.randn(rows, gates), 0.5 * torch.randn(gates, hidden), torch.rand(rows)]
    if cell == "gru":
        leaves[2] = torch.zeros(0)
    results = []
    for dtype, place, loops in ((torch.float32, device, recurrence_cuda), (torch.float64, "cpu", None)):
        given = [leaf.detach().to(place, dtype).clone().requires_grad_() for leaf in leaves]
        if loops is None:
            states = plain_recurrence(*given, offsets, cell)
        else:
            gates, weight, attention = given
            states = _Loops.apply(gates, attention, offsets.to(place), cell, loops, weight)
        weigh = torch.linspace(-1, 1, hidden, dtype=dtype, device=place)
        (states * weigh).sum().backward()
        results.append([states, *(leaf.grad if leaf.grad is not None else leaf * 0 for leaf in given)])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours.cpu().double(), plain, atol=1e-5, rtol=1e-5)
