"""What one machine needed, measured by ``benchmarks/cost_model.py``: the coefficients of the cost model."""

from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict

from deep_interest.models.registry import MODELS

FILE = "measurements.json"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Line(_Frozen):
    """A cost that grows linearly: ``fixed + per_row · rows``.

    Attributes:
        fixed: cost without any row.
        per_row: cost of each row.
    """

    fixed: float
    per_row: float

    def at(self, rows: float) -> float:
        """Return the cost of a number of rows."""
        return self.fixed + self.per_row * rows

    def rows_within(self, budget: float) -> float:
        """Return how many rows a budget allows, at least 0."""
        return max(0.0, (budget - self.fixed) / self.per_row) if self.per_row else float("inf")


class DataPath(_Frozen):
    """Cost of a step of the data path, by its rows.

    Attributes:
        seconds: seconds of the step, without starting Python.
        memory: peak memory of the process in bytes; for engines without memory-mapped files.
        stored: bytes per row of the tables that the engine stores in between.
        cores: number of cores that were used.
    """

    seconds: Line
    memory: Line
    stored: float = 0.0
    cores: int


class ModelSpeed(_Frozen):
    """Seconds per sample on one core, by the width W of a behaviour's vector and the length L of the history.

    Each is ``(c0, c1, c2, c3)`` of ``c0 + c1 W + c2 L + c3 W L``.

    Attributes:
        train: of a step of training.
        score: of a prediction.
    """

    train: tuple[float, float, float, float]
    score: tuple[float, float, float, float]

    def training_seconds(self, width: float, length: float) -> float:
        """Return the seconds of training on one sample."""
        return _bilinear(self.train, width, length)

    def scoring_seconds(self, width: float, length: float) -> float:
        """Return the seconds of scoring one sample."""
        return _bilinear(self.score, width, length)


class Measurements(_Frozen):
    """All measurements of one machine.

    Attributes:
        machine: cores and kind of CPU.
        commit: commit of the code.
        ingest: raw files to canonical tables, in ``memory`` and on ``disk``; rows are behaviours and impressions.
        samples: canonical tables to samples, by engine; rows are behaviours and samples.
        canonical_bytes: bytes on disk of a row of the canonical tables.
        samples_bytes: bytes on disk of a sample.
        process_bytes: memory of a process that has imported everything for training.
        batch_bytes: memory of a training step, for each number in the vectors of the behaviours of a batch.
        models: speed of each measured model.
    """

    machine: str
    commit: str
    ingest: dict[str, DataPath]
    samples: dict[str, DataPath]
    canonical_bytes: float
    samples_bytes: float
    process_bytes: float
    batch_bytes: float
    models: dict[str, ModelSpeed]

    def speed_of(self, model: str) -> tuple[str, ModelSpeed]:
        """Return the measured model that represents a model, and its speed: the model itself, or one of the same class."""
        if model in self.models:
            return model, self.models[model]
        same = next((key for key in self.models if MODELS[key].path == MODELS[model].path), None)
        family = next((key for key in self.models if MODELS[key].family == MODELS[model].family), None)
        chosen = same or family or "din"
        return chosen, self.models[chosen]


@cache
def measurements() -> Measurements:
    """Read the measurements that come with the package."""
    return Measurements.model_validate_json(files(__package__).joinpath(FILE).read_text())


def _bilinear(coefficients: tuple[float, float, float, float], width: float, length: float) -> float:
    c0, c1, c2, c3 = coefficients
    return c0 + c1 * width + c2 * length + c3 * width * length
