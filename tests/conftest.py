"""One thread a test process: the suite runs two of them on two cores. Without a GPU, Triton's kernels are interpreted."""

import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is imported
