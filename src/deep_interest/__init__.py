"""Click-through-rate models from user-behaviour logs: DIN, DIEN and their baselines."""

__version__ = "0.1.0"
