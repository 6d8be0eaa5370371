"""Options of LSTM."""

from deep_interest.models.config import DeepConfig


class LSTMConfig(DeepConfig):
    """Options of LSTM: those of every Embedding&MLP model."""
