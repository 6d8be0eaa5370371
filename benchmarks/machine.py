"""The machine and commit that a benchmark ran on, and the CPU time that other processes used meanwhile."""

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil


def this_machine(device: str = "cpu") -> str:
    """Name the machine by its number of cores and their kind, and by the GPU if the device is one."""
    import torch

    from deep_interest.ops.kernels.gemm_llvm import HAS_AVX512

    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    found = {
        name: re.search(rf"^{name}\s*: (.+)$", text, re.MULTILINE)
        for name in ("model name", "cpu family", "model")
    }
    name, family, model = (match and match[1] for match in found.values())
    kind = f"{name} (family {family}, model {model})" if name and family else name or platform.machine()
    cores = f"{os.cpu_count()} cores of {kind}{' with AVX-512' if HAS_AVX512 else ''}"
    return f"{torch.cuda.get_device_name(device)}, {cores}" if device.startswith("cuda") else cores


def this_commit() -> str:
    """Name the checked-out commit, with ``-dirty`` if files were changed; ``unknown`` outside a repository or without git."""
    if shutil.which("git") is None:
        return "unknown"
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def others_share() -> Callable[[], float]:
    """Return a function that returns the share of CPU time that other processes have used since this call.

    Processes that this one started count as its own.
    """
    start, busy, own = time.perf_counter(), _busy(), _own()

    def share() -> float:
        seconds = (time.perf_counter() - start) * (os.cpu_count() or 1)
        return max(0.0, (_busy() - busy) - (_own() - own)) / seconds

    return share


def _busy() -> float:
    times = psutil.cpu_times()
    return sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))


def _own() -> float:
    process = psutil.Process()
    times = process.cpu_times()
    return (
        times.children_user
        + times.children_system
        + sum(sum(each.cpu_times()[:2]) for each in (process, *process.children(recursive=True)))
    )
