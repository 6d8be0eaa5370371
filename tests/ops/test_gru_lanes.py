"""Attention-gated GRUs over histories that many candidates share, computed for several candidates at once."""

import numpy as np
import pytest
import torch
from support import reference
from support.ops import jagged, partitioned

from deep_interest.models.recurrent import GRU
from deep_interest.ops.gru import VARIANTS, GRUWeights, gru_last_states
from deep_interest.ops.jagged import share_segments
from deep_interest.ops.kernels.gru_lanes import shared_groups

GATED = [variant for variant in VARIANTS if variant != "gru"]
OWNERS = {  # histories of 7, 0, 1 and 30 behaviours
    "one request": [0] * 40,
    "groups that are not full": [0] * 33 + [2] * 5 + [3] * 64,
    "with an empty history": [0] * 20 + [1] * 6 + [3] * 20,
}


def problem(variant, hidden, owners):
    torch.manual_seed(hidden)
    histories = jagged([7, 0, 1, 30])
    pairs = share_segments(histories, torch.tensor(owners))
    gru = GRU(6, hidden, variant=variant)
    with torch.no_grad():
        gru.bias.normal_(std=0.5)
    return gru, torch.randn(38, 6), torch.rand(int(pairs.offsets[-1])), pairs


def last_states(gru, inputs, attention, pairs, variant):
    with torch.no_grad():
        return gru_last_states(inputs, GRUWeights(*gru.parameters()), attention, pairs, variant)


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS)
@pytest.mark.parametrize("hidden", [5, 16, 36])
@pytest.mark.parametrize("variant", GATED)
def test_the_last_states_agree_with_the_equations(variant, hidden, owners):
    gru, inputs, attention, pairs = problem(variant, hidden, owners)
    assert 4 * len(shared_groups(pairs.offsets.numpy(), pairs.starts.numpy())) <= len(
        owners
    )  # computed together
    found = last_states(gru, inputs, attention, pairs, variant).numpy()
    values = {f"gru.{name}": value for name, value in reference.parameters(gru.double()).items()}
    for b, start in enumerate(pairs.starts.tolist()):
        first, last = pairs.offsets[b : b + 2].tolist()
        history = inputs.double().numpy()[start : start + last - first]
        weights = attention.double().numpy()[first:last]
        states = reference.gru_states(values, "gru", history, variant, weights)
        expected = states[-1] if last > first else np.zeros(hidden)
        np.testing.assert_allclose(found[b], expected, atol=2e-6)


@pytest.mark.parametrize("variant", GATED)
def test_the_number_of_threads_does_not_change_a_bit(variant):
    problems = problem(variant, 36, OWNERS["groups that are not full"])
    results = []
    for threads in (1, 3):
        with partitioned(threads):
            results.append(last_states(*problems, variant))
    assert torch.equal(*results)
