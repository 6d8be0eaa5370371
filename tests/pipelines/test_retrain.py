"""The node of retraining that compares served with batch scores: only where the gate asks for it, and something has been served."""

from types import SimpleNamespace

import pytest

from deep_interest.pipelines.retrain.nodes import make_check_parity
from deep_interest.retraining.parameters import GateParameters, RetrainingParameters


@pytest.mark.parametrize(("parity", "parent"), [(False, "v1"), (True, None), (False, None)])
def test_the_verdict_stays_without_parity_and_for_a_first_version(parity, parent):
    verdict, retraining = object(), RetrainingParameters(gate=GateParameters(parity=parity))
    plan, unused = SimpleNamespace(parent=parent), None
    check = make_check_parity("shop", "din")
    found = check(verdict, unused, unused, plan, unused, unused, unused, unused, unused, unused, retraining)
    assert found is verdict
