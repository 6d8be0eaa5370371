"""Memory, disk and time of each stage on one machine."""

from dataclasses import dataclass

from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.models.config import ModelConfig
from deep_interest.planning.arrays import (
    ModelSize,
    batch_source_bytes,
    behavior_width,
    features_bytes,
    log_bytes,
    model_size,
    sample_bytes,
    schema_of,
)
from deep_interest.planning.counts import Counts
from deep_interest.planning.measurements import DataPath, Measurements
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.training.parameters import TrainingOptions

INGESTS = {"memory": "in memory", "disk": "on disk"}
ENGINES = {"numpy": "NumPy", "duckdb": "DuckDB", "spark": "Spark"}
_ORDER, _REQUEST_ORDER = 8, 24  # bytes per sample: the order of an epoch; with the ranks of the requests
_OCCURRENCES = 9  # bytes per row of a table: its count, and whether it is trained
_SCORE = 40  # bytes on disk of a scored pair


@dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        memory: bytes that may be used.
        cores: number of cores.
    """

    memory: int
    cores: int


@dataclass(frozen=True)
class Workload:
    """What is planned.

    Attributes:
        dataset, model: keys of dataset and model.
        counts: size of the dataset.
        columns: feature columns.
        config: options of the model.
        options: options of training.
        seeds: number of fits.
        retraining: parameters of retraining; None if the dataset cannot be retrained.
        candidates: number of candidates that batch scoring scores for each user.
    """

    dataset: str
    model: str
    counts: Counts
    columns: FeatureColumns
    config: ModelConfig
    options: TrainingOptions
    seeds: int
    retraining: RetrainingParameters | None
    candidates: int


@dataclass(frozen=True)
class Stage:
    """Cost of a stage.

    Attributes:
        name: name of the stage.
        engine: what computes it.
        memory: peak memory in bytes.
        disk: bytes of what it writes, and of what it stores in between.
        seconds: time.
        fits: whether the memory is within that of the machine.
    """

    name: str
    engine: str
    memory: float
    disk: float
    seconds: float
    fits: bool


class Costs:
    """Costs of a workload on a machine.

    Args:
        workload: what is planned.
        machine: where.
        measured: coefficients.
    """

    def __init__(self, workload: Workload, machine: Machine, measured: Measurements) -> None:
        self.workload, self.machine, self.measured = workload, machine, measured
        self.schema = schema_of(workload.columns, workload.counts)
        self.size: ModelSize = model_size(workload.model, workload.config, self.schema)
        self.arrays = log_bytes(self.schema, workload.counts) + features_bytes(self.schema, workload.counts)
        self.width = behavior_width(self.schema, workload.config)
        self.length = min(float(workload.options.max_len), workload.counts.behaviors_per_user)
        self.speed_of, self.speed = measured.speed_of(workload.model)

    def stages(self) -> list[Stage]:
        """Return all stages, in the order in which they run."""
        stages = [self.ingest(way) for way in self.measured.ingest]
        stages += [*[self.samples(engine) for engine in self.measured.samples], self.train()]
        return stages + ([self.score(), self.retrain()] if self.workload.retraining is not None else [])

    def ingest(self, way: str) -> Stage:
        """From raw files to canonical tables."""
        rows, measured = self._ingested, self.measured.ingest[way]
        disk = (self.measured.canonical_bytes + measured.stored) * rows
        return self._stage(
            "ingest", INGESTS[way], measured.memory.at(rows), disk, self._seconds(measured, rows)
        )

    def samples(self, engine: str) -> Stage:
        """From canonical tables to log, features and samples."""
        measured, counts = self.measured.samples[engine], self.workload.counts
        disk = self.arrays + self.measured.samples_bytes * counts.samples + measured.stored * counts.events
        memory = self.samples_memory(engine)
        return self._stage("samples", ENGINES[engine], memory, disk, self._seconds(measured, counts.events))

    def samples_memory(self, engine: str) -> float:
        """Peak memory of the samples."""
        return self.measured.samples[engine].memory.at(self.workload.counts.events)

    def train(self) -> Stage:
        """All seeds of the model, one core each."""
        workload, weights = self.workload, self.size.weight_bytes
        processes = min(workload.seeds, self.machine.cores)
        memory = self._data_memory() + processes * self.fit_memory() + workload.seeds * weights
        running = processes * (self._state_bytes() + weights)
        disk = 2 * workload.seeds * weights + running
        samples = workload.counts.samples * workload.options.epochs * workload.seeds
        seconds = samples * self.speed.training_seconds(self.width, self.length) / processes
        return self._stage(f"train {workload.model}", f"{processes} process(es)", memory, disk, seconds)

    def fit_memory(self) -> float:
        """Memory of one fit: process, parameters, moments, best parameters, n_j, samples, and the vectors of a batch."""
        counts, options = self.workload.counts, self.workload.options
        per_sample = batch_source_bytes(self.schema) + sample_bytes(self.schema)
        per_sample += _REQUEST_ORDER if options.shuffle == "requests" else _ORDER
        batch = self.measured.batch_bytes * options.batch_size * self.length * self.width
        parameters = 2 * self.size.weight_bytes + self._state_bytes() + _OCCURRENCES * self.size.table_rows
        return self.measured.process_bytes + parameters + per_sample * counts.samples + batch

    def rank_memory(self, ranks: int) -> float:
        """Memory of one rank if the tables are sharded over several: a share of tables with moments, samples and log."""
        counts = self.workload.counts
        copies = 3 if self.workload.options.optimizer == "adam" else 1
        tables = copies * self.size.table_bytes + _OCCURRENCES * self.size.table_rows
        network = 16 * self.size.network_values
        samples = (batch_source_bytes(self.schema) + sample_bytes(self.schema) + _ORDER) * counts.samples
        return self.measured.process_bytes + network + (tables + samples + self.arrays) / ranks

    def score(self) -> Stage:
        """Scores of all users and candidates with the version in production."""
        workload = self.workload
        assert workload.retraining is not None
        pairs = workload.counts.users * workload.candidates
        kept = min(workload.candidates, workload.retraining.scoring.top_k or workload.candidates)
        memory = (
            self.ingest("memory").memory + self.arrays + self.size.weight_bytes + self.measured.process_bytes
        )
        seconds = pairs * self.speed.scoring_seconds(self.width, self.length) / self.machine.cores
        return self._stage(
            "score",
            "1 process",
            memory,
            _SCORE * kept * workload.counts.users,
            seconds + self._read_seconds(),
        )

    def retrain(self) -> Stage:
        """One night: the new day and those that are replayed, or the whole window."""
        workload, retraining = self.workload, self.workload.retraining
        assert retraining is not None
        full = retraining.strategy == "full_window"
        trained = retraining.window_days if full else 1 + retraining.replay_days
        share = min(1.0, trained / self.days)
        overrides = retraining.training if full else retraining.warm_training
        epochs = int(overrides.get("epochs", workload.options.epochs))
        seconds = (
            workload.counts.samples * share * epochs * self.speed.training_seconds(self.width, self.length)
        )
        memory = (
            self.ingest("memory").memory + self._data_memory() + self.fit_memory() + self.size.weight_bytes
        )
        version = self.size.weight_bytes + self._moments_bytes()
        disk = version * retraining.keep_versions + self._state_bytes() + 2 * self.size.weight_bytes
        seconds = seconds / self.machine.cores + self._read_seconds()
        return self._stage(f"retrain ({retraining.strategy})", "1 process", memory, disk, seconds)

    @property
    def days(self) -> int:
        """Days of the samples; a window of retraining if they are unknown."""
        assert self.workload.retraining is not None
        return self.workload.counts.days or self.workload.retraining.window_days

    @property
    def _ingested(self) -> int:
        """Rows of the raw files: behaviours, and impressions where the samples are impressions."""
        counts = self.workload.counts
        return counts.behaviors + (counts.samples if self.workload.retraining is not None else 0)

    def _read_seconds(self) -> float:
        return self.measured.ingest["memory"].seconds.at(self._ingested)

    def _data_memory(self) -> float:
        """Log and features, which all processes map into memory, and the samples of the process of Kedro."""
        return self.arrays + sample_bytes(self.schema) * self.workload.counts.samples

    def _moments_bytes(self) -> float:
        return 2 * self.size.weight_bytes if self.workload.options.optimizer == "adam" else 0

    def _state_bytes(self) -> float:
        """Bytes of what a running fit saves and has in memory: parameters and moments."""
        return self.size.weight_bytes + self._moments_bytes()

    def _seconds(self, measured: DataPath, rows: int) -> float:
        """Seconds with the machine's number of cores: DuckDB and Spark use all of them."""
        share = 1.0 if measured.cores == 1 else measured.cores / self.machine.cores
        return measured.seconds.fixed + measured.seconds.per_row * rows * share

    def _stage(self, name: str, engine: str, memory: float, disk: float, seconds: float) -> Stage:
        return Stage(name, engine, memory, disk, seconds, fits=memory <= self.machine.memory)
