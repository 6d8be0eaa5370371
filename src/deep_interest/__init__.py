"""Click-through-rate models from user-behaviour logs: DIN and its baselines."""

import os

__version__ = "0.1.0"

# Read by torch's OpenMP when torch is first imported. Threads that wait spin, by default for so long that training
# slows twentyfold as soon as another program wants the same processors; these spin shortly, then sleep.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
