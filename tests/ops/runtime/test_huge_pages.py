import re
import sys
from pathlib import Path

import pytest
import torch

from deep_interest.ops.runtime.memory import HUGE_PAGES_MIN_BYTES, use_huge_pages

SUPPORTED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def flags_of(address):
    """The flags of the memory mapping that contains an address."""
    here = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            here = int(found[1], 16) <= address < int(found[2], 16)
        elif here and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []


def test_huge_pages_do_not_change_a_large_tensor():
    tensor = torch.arange(HUGE_PAGES_MIN_BYTES // 4, dtype=torch.float32)
    expected = tensor.clone()
    assert use_huge_pages(tensor) is tensor
    assert torch.equal(tensor, expected)
    known = sys.platform == "linux" and SUPPORTED.exists()
    assert ("hg" in flags_of(tensor.data_ptr() + tensor.nbytes // 2)) == known


@pytest.mark.parametrize("tensor", [torch.zeros(5), torch.zeros(0)])
def test_a_small_tensor_keeps_its_pages(tensor):
    assert use_huge_pages(tensor) is tensor
