"""A plan as lines for a terminal."""

from collections.abc import Iterator

from deep_interest.planning.plan import Plan
from deep_interest.planning.stages import Stage

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_TIMES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def plan_lines(plan: Plan) -> Iterator[str]:
    """Describe a plan: counts, a table of the stages, from where on which engine pays, and the assumptions."""
    counts, machine = plan.workload.counts, plan.machine
    yield (
        f"{plan.workload.dataset}: {counts.users:,} users, {counts.items:,} items, {counts.behaviors:,} behaviours, "
        f"{counts.samples:,} samples"
    )
    yield f"{plan.workload.model}: {plan.parameters:,} parameters"
    yield f"machine: {machine.cores} cores, {size(machine.memory)} of memory"
    yield ""
    yield from _table(plan.stages)
    yield ""
    yield "from where on which engine pays:"
    yield from (f"- {sentence}" for sentence in plan.advice)
    yield ""
    yield "assumptions:"
    yield from (f"- {sentence}" for sentence in plan.assumptions)


def size(number: float) -> str:
    """Return a number of bytes with a unit, such as ``1.2 GB``."""
    for factor, unit in _UNITS:
        if number >= factor:
            return f"{number / factor:,.1f} {unit}"
    return f"{number:,.0f} B"


def duration(seconds: float) -> str:
    """Return a time with a unit, such as ``3.5 min``."""
    for factor, unit in _TIMES:
        if seconds >= 2 * factor:
            return f"{seconds / factor:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def _table(stages: list[Stage]) -> Iterator[str]:
    rows = [("stage", "engine", "memory", "disk", "time", "")]
    rows += [
        (stage.name, stage.engine, size(stage.memory), size(stage.disk), duration(stage.seconds),
         "" if stage.fits else "does not fit into memory")
        for stage in stages
    ]  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for name, engine, *numbers, note in rows:
        cells = [f"{number:>{width}}" for number, width in zip(numbers, widths[2:], strict=True)]
        yield "  ".join([f"{name:{widths[0]}}", f"{engine:{widths[1]}}", *cells, note]).rstrip()
