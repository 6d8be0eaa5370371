"""The plan of a dataset: costs of all stages, from where on another engine pays, and what is assumed."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from deep_interest.planning.arrays import ASSUMED_VALUES
from deep_interest.planning.counts import uncounted
from deep_interest.planning.measurements import Measurements, measurements
from deep_interest.planning.stages import ENGINES, Costs, Machine, Stage, Workload

_MOST_RANKS = 4096


@dataclass(frozen=True)
class Plan:
    """Plan of a dataset on a machine.

    Attributes:
        workload: what is planned.
        machine: where.
        stages: costs of the stages.
        parameters: number of parameters of the model.
        ranks: number of machines like this one over which the tables have to be sharded; 1 if the model fits on one, None if no
            number is enough.
        advice: from where on which engine pays, one sentence each.
        assumptions: what the numbers rest on, one sentence each.
    """

    workload: Workload
    machine: Machine
    stages: list[Stage]
    parameters: int
    ranks: int | None
    advice: list[str]
    assumptions: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; bytes and seconds are rounded to whole numbers and milliseconds."""
        counts = {key: value for key, value in asdict(self.workload.counts).items() if value is not None}
        stages = [
            asdict(stage) | {"memory": round(stage.memory), "disk": round(stage.disk), "seconds": round(stage.seconds, 3)}
            for stage in self.stages
        ]  # fmt: skip
        return {
            "dataset": self.workload.dataset, "model": self.workload.model, "counts": counts, "machine": asdict(self.machine),
            "stages": stages, "parameters": self.parameters, "ranks": self.ranks, "advice": self.advice,
            "assumptions": self.assumptions,
        }  # fmt: skip


def make_plan(workload: Workload, machine: Machine, measured: Measurements | None = None) -> Plan:
    """Plan a dataset.

    Args:
        workload: what is planned.
        machine: where.
        measured: coefficients; those of the package if left out.
    """
    measured = measured or measurements()
    costs = Costs(workload, machine, measured)
    ranks = ranks_needed(costs)
    return Plan(
        workload, machine, costs.stages(), (costs.size.table_values + costs.size.network_values), ranks,
        [*_engine_advice(costs), *_rank_advice(costs, ranks)], list(_assumptions(costs)),
    )  # fmt: skip


def ranks_needed(costs: Costs) -> int | None:
    """Return the smallest number of machines on which one fit fits, or None."""
    data = costs.arrays
    if costs.fit_memory() + data <= costs.machine.memory:
        return 1
    if costs.rank_memory(_MOST_RANKS) > costs.machine.memory:
        return None
    low, high = 1, _MOST_RANKS  # `low` is too few, `high` is enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if costs.rank_memory(middle) <= costs.machine.memory else (middle, high)
    return high


def largest_behaviors(costs: Costs, engine: str) -> int:
    """Return how many behaviours the samples of an engine can have within the machine's memory, all counts in proportion."""
    low, high = 0.0, 1.0

    def fits(factor: float) -> bool:
        counts = costs.workload.counts
        scaled = replace(
            counts,
            **{
                name: max(1, round(getattr(counts, name) * factor))
                for name in ("users", "items", "behaviors", "samples")
            },
        )
        grown = Costs(replace(costs.workload, counts=scaled), costs.machine, costs.measured)
        return grown.samples_memory(engine) <= costs.machine.memory

    while fits(high) and high < 1e9:
        low, high = high, 2 * high
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return int(costs.workload.counts.behaviors * low)


def _engine_advice(costs: Costs) -> Iterator[str]:
    for engine, name in ENGINES.items():
        if engine not in costs.measured.samples:
            continue
        limit = largest_behaviors(costs, engine)
        yield f"{name}: the samples fit into the memory of this machine up to about {_rounded(limit)} behaviours of this kind"
    for engine in [engine for engine in costs.measured.samples if engine != "numpy"]:
        cores = cores_to_beat_numpy(costs, engine)
        name = ENGINES[engine]
        if cores is None:
            yield f"{name} is never faster than NumPy on these counts, however many cores it has"
        elif cores > costs.machine.cores:
            yield f"{name} is faster than NumPy from about {cores:,} cores on"
        else:
            yield f"{name} is faster than NumPy on this machine"
    if costs.samples("numpy").fits and costs.ingest("memory").fits:
        yield "ingest and samples: use NumPy (the default environment)"
    elif costs.samples("duckdb").fits:
        yield "ingest and samples: they do not fit into memory; use DuckDB (--env=duckdb)"
    else:
        yield "ingest and samples: they need more memory than this machine has on every engine; use Spark on a cluster (--env=spark)"


def cores_to_beat_numpy(costs: Costs, engine: str) -> int | None:
    """Return the number of cores from which an engine makes the samples faster than NumPy; None if there is none."""
    measured, events = costs.measured.samples[engine], costs.workload.counts.events
    allowed = costs.samples("numpy").seconds - measured.seconds.fixed
    if allowed <= 0:
        return None
    needed = measured.seconds.per_row * events * measured.cores / allowed
    return max(1, int(needed) + (needed > int(needed)))


def _rank_advice(costs: Costs, ranks: int | None) -> Iterator[str]:
    model, need = costs.workload.model, costs.fit_memory() + costs.arrays
    if ranks == 1:
        yield f"train: one process; a fit of {model} needs {need / 1e9:,.1f} GB"
    elif ranks is None:
        yield f"train: {model} does not fit, whatever the number of ranks; give each machine more memory"
    else:
        yield (
            f"train: a fit of {model} needs {need / 1e9:,.0f} GB; shard its tables over {ranks:,} machines like this one (--env=cluster), "
            f"{costs.rank_memory(ranks) / 1e9:,.1f} GB each"
        )


def _assumptions(costs: Costs) -> Iterator[str]:
    workload, measured, counts = costs.workload, costs.measured, costs.workload.counts
    yield f"measured on {measured.machine}, commit {measured.commit}; costs grow linearly with the rows"
    yield "all samples are trained on in each epoch, and no fit stops before its last epoch"
    yield f"a history has as many behaviours as the average user, {costs.length:,.1f}, at most max_len"
    if costs.speed_of != workload.model:
        yield f"{workload.model} is as fast as {costs.speed_of}, which was measured"
    if missing := uncounted(workload.columns, counts):
        yield f"{', '.join(missing)}: {ASSUMED_VALUES:,} values each (--values NAME=N)"
    if workload.columns.multi_hot or workload.columns.sequences:
        yield "features with several values count as features with one; further sequences are not counted"
    if workload.retraining is not None:
        yield f"the samples are those of {costs.days:,} days; scoring has {workload.candidates:,} candidates for each user"
        yield "scoring and retraining use all cores without loss"
    yield "each rank has an equal share of the sharded tables and their moments, of the samples and of the log"
    yield "DuckDB and Spark use all cores without loss; Spark's driver has the memory that was measured, its workers have their own"
    yield "two fits on two cores are as fast as one on one; a large table is as fast as a small one"


def _rounded(number: int) -> str:
    """Round to two digits."""
    digits = max(0, len(str(number)) - 2)
    return f"{round(number, -digits):,}"
