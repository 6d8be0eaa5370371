"""The choice between the compiled kernels and the plain implementations."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import use_engine

from deep_interest.errors import InputError
from deep_interest.ops import gru
from deep_interest.ops.histories import gather_slices, history_slices
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.runtime.dispatch import can_use_compiled
from deep_interest.ops.runtime.engine import current_engine, resolve_engine, set_engine


@pytest.fixture(autouse=True)
def _default_engine_afterwards():
    yield
    set_engine(None)


@pytest.mark.parametrize(
    ("value", "engine"), [(None, "compiled"), ("", "compiled"), ("compiled", "compiled"), ("plain", "plain")]
)
def test_the_environment_variable_chooses_the_engine(monkeypatch, value, engine):
    monkeypatch.delenv("DEEP_INTEREST_ENGINE", raising=False)
    if value is not None:
        monkeypatch.setenv("DEEP_INTEREST_ENGINE", value)
    assert (set_engine(None), current_engine()) == (engine, engine)
    assert can_use_compiled(torch.zeros(1)) == (engine == "compiled")


@pytest.mark.parametrize("value", ["Plain", "numba", " plain", "0"])
def test_an_unknown_engine_is_an_error_with_the_known_ones(monkeypatch, value):
    monkeypatch.setenv("DEEP_INTEREST_ENGINE", value)
    with pytest.raises(
        InputError, match=f"^DEEP_INTEREST_ENGINE: '{value}' is not an engine; .*compiled or plain$"
    ):
        set_engine(None)


def test_a_parameter_takes_precedence_over_the_environment_variable(monkeypatch):
    monkeypatch.setenv("DEEP_INTEREST_ENGINE", "plain")
    assert set_engine("compiled") == "compiled"
    assert can_use_compiled(torch.zeros(1))
    assert resolve_engine(None) == "plain"
    assert current_engine() == "compiled"


def test_the_plain_engine_does_not_run_triton_kernels(monkeypatch):
    class OnGPU:
        is_cuda, is_cpu, dtype = True, False, torch.float32

    monkeypatch.setattr(gru, "find_spec", lambda name: name)
    monkeypatch.setattr(gru, "import_module", lambda name: name)
    assert gru._backend_for(OnGPU, OnGPU) == "deep_interest.ops.kernels.gru_triton"
    with use_engine("plain"):
        assert gru._backend_for(OnGPU, OnGPU) is None


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6), st.integers(0, 8), st.data())
@settings(max_examples=50, deadline=None)
def test_both_engines_take_the_same_slices_of_the_log(lengths, max_len, data):
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    pairs = st.integers(0, len(lengths) - 1).flatmap(
        lambda u: st.tuples(st.just(u), st.integers(0, lengths[u]))
    )
    samples = data.draw(st.lists(pairs, max_size=8))
    users, ends = (torch.tensor([pair[i] for pair in samples], dtype=torch.int32) for i in range(2))
    rows = torch.tensor(data.draw(st.permutations(range(len(samples)))), dtype=torch.int64)
    log, found = {"item_id": torch.arange(int(offsets[-1]), dtype=torch.int32)}, []
    for engine in ("compiled", "plain"):
        with use_engine(engine):
            slices = history_slices(rows, users, ends, offsets, max_len=max_len)
            runs = Jagged(torch.from_numpy(slices.offsets))
            found.append((slices, gather_slices(log, torch.from_numpy(slices.starts), runs)["item_id"]))
    (compiled, codes), (plain, plain_codes) = found
    for ours, theirs in zip(compiled, plain, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_array_equal(ours, theirs, strict=True)
    assert torch.equal(codes, plain_codes)
