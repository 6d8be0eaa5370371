"""The benchmark of the activation unit's precision measures both, and a CPU without AMX."""

import pytest
from attention_precision import scoring_ms


@pytest.mark.nightly
@pytest.mark.slow
def test_both_precisions_are_measured():
    found = scoring_ms(3, rounds=1)
    assert set(found) == {"float32", "bfloat16", "bfloat16_without_amx"}
    assert all(ms > 0 for ms in found.values())
