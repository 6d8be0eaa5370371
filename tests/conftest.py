"""One thread a test process: the suite runs two of them on two cores."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
