"""One thread per test process: the suite runs two of them on two cores. Without a GPU, Triton's kernels are interpreted.

Hypothesis has no deadline: on a busy machine an example that usually takes 10 ms takes longer than the default 200 ms.
"""

import os
from pathlib import Path

from hypothesis import settings

settings.register_profile("repository", deadline=None)
settings.load_profile("repository")

os.environ["OMP_NUM_THREADS"] = "1"
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is imported
