"""Click-through-rate models from user-behaviour logs: DIN and its baselines."""

__version__ = "0.1.0"
