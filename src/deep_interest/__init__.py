"""Click-through-rate models from user-behaviour logs: DIN, DIEN and their baselines."""

import os

__version__ = "0.1.0"

# Read by torch's OpenMP when it is first imported. Threads that spin while they wait make training twenty times slower
# as soon as another program wants the same processors; threads that sleep cost next to nothing.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
