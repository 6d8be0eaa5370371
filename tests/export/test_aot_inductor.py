"""Exported programs compiled by AOTInductor score like the models; it needs a C++ compiler."""

import shutil

import numpy as np
import pytest
import torch
from support.batches import SCHEMA
from support.exported import random_model
from support.one_user import random_request, scores

from deep_interest.export.program import trace, write_pt2

COMPILER = shutil.which("g++") or shutil.which("clang++")


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="AOTInductor needs a C++ compiler")
@pytest.mark.parametrize("key", ["din", "dien", "din_dice", "sim_soft"])
def test_a_compiled_program_has_the_ctrs_of_the_model(key, tmp_path):
    model = random_model(key, SCHEMA)
    write_pt2(trace(model), tmp_path / "model.pt2")
    package = torch._inductor.aoti_compile_and_package(
        torch.export.load(tmp_path / "model.pt2"), package_path=str(tmp_path / "compiled.pt2")
    )
    compiled, ctrs = torch._inductor.aoti_load_package(package), []
    for length, candidates in ((0, 3), (1, 1), (2, 2), (60, 5)):
        inputs, batch = random_request(model.schema, length, candidates, seed=length)
        expected = scores(model, batch)
        np.testing.assert_allclose(compiled(inputs).numpy(), expected, rtol=0, atol=1e-5)
        ctrs.extend(expected)
    assert np.ptp(ctrs) > 0.01
