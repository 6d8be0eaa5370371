"""Further sequences of behaviours: their events in order, and what each sample sees of them, as expressions."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from deep_interest.engines.columns import LearnedColumn
from deep_interest.engines.engine import PARTITION, Engine
from deep_interest.engines.ordered_log import count_before, days_of
from deep_interest.engines.targets import is_one_of
from deep_interest.errors import InputError
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.feature_columns import CLICKED, GAP, FeatureColumns, SequenceColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.schema import Sequence
from deep_interest.logs.sequences import sequence_fields

if TYPE_CHECKING:
    import ibis.expr.types as ir


def membership(behaviors: "ir.Table", features: FeatureColumns) -> dict[str, Any]:
    """Return expressions of the columns ``in_sequence_<k>``: whether each behaviour belongs to the k-th sequence.

    Raises:
        InputError: a sequence selects by a column that the behaviours do not have.
    """
    import ibis  # noqa: PLC0415

    columns = {}
    for k, (name, declared) in enumerate(features.sequences.items()):
        if declared.source != "behaviors":
            continue
        chosen: Any = ibis.literal(True)
        for column, values in declared.where.items():
            if column not in behaviors.columns:
                raise InputError(
                    f"features.sequences.{name}.where: {column} is not a column of the behaviours ({', '.join(behaviors.columns)})"
                )
            chosen = chosen & is_one_of(behaviors[column], values).fill_null(False)
        columns[f"in_sequence_{k}"] = chosen
    return columns


def store_sequences(
    engine: Engine,
    protocol: ProtocolParameters,
    features: FeatureColumns,
    source: str,
    *,
    has_impressions: bool,
) -> None:
    """Store ``sequence_<k>`` with the events of each sequence, and ``samples`` with the events that each sample sees.

    Args:
        engine: engine with ``log``, and ``impressions`` if there are any.
        protocol: protocol.
        features: feature columns.
        source: stored samples without the sequences.
        has_impressions: whether the dataset has impressions.

    Raises:
        InputError: a sequence has no events, or needs impressions that the dataset does not have.
    """
    for k, (name, declared) in enumerate(features.sequences.items()):
        if declared.source == "impressions" and not has_impressions:
            raise InputError(
                f"features.sequences.{name}: source: impressions needs impressions, but the dataset has none; declare source.impressions, "
                "or use source: behaviors"
            )
        events = "impressions" if declared.source == "impressions" else "log"
        engine.store(
            f"sequence_{k}",
            partial(_events, engine=engine, k=k, declared=declared, protocol=protocol),
            [events],
        )
        _require_events(engine, name, declared, k, events)
    stored = [f"sequence_{k}" for k in range(len(features.sequences))]
    see = partial(_seen, protocol=protocol, features=features)
    engine.store("samples", see, [source, *stored])


def _events(
    table: "ir.Table", *, engine: Engine, k: int, declared: SequenceColumns, protocol: ProtocolParameters
) -> "ir.Table":
    """Return the events of a sequence with their positions."""
    import ibis  # noqa: PLC0415

    from deep_interest.logs.hashing import Purpose  # noqa: PLC0415

    if declared.source == "impressions":
        wanted = declared.where.get(CLICKED)
        chosen = (
            table if wanted is None else table.filter(table["label"].isin([int(value) for value in wanted]))
        )
        tie = engine.hash63(protocol.seed, Purpose.TIE, chosen["user"], chosen["item"])
        chosen = chosen.mutate(tie=tie)
        order = [chosen["time"], chosen["tie"], chosen["item"], chosen["label"]]
        own = {"clicked": (chosen["label"] + 1).cast("int32")}
    else:
        chosen = table.filter(table[f"in_sequence_{k}"])
        order = [chosen["position"]]
        own = {name: chosen[name] for name in chosen.columns if name.startswith("own_")}
    day = (
        chosen["day"].cast("int64") if "day" in chosen.columns else days_of(chosen["time"], protocol.calendar)
    )
    position = ibis.row_number().over(ibis.window(group_by="user", order_by=order))
    return chosen.select("user", "item", "time", PARTITION, day=day, position=position.cast("int32"), **own)


def _seen(
    samples: "ir.Table", *sequences: "ir.Table", protocol: ProtocolParameters, features: FeatureColumns
) -> "ir.Table":
    """Return the samples with ``history_begin.<name>`` and ``history_end.<name>`` of each sequence."""
    import ibis  # noqa: PLC0415

    columns = list(samples.columns)
    sample_day = ibis.literal(0, "int64") if protocol.name == "given" else _sample_day(samples, protocol)
    dated = samples.mutate(sequence_day=sample_day)
    names = []
    for (name, declared), events in zip(features.sequences.items(), sequences, strict=True):
        begin, end = f"history_begin.{name}", f"history_end.{name}"
        if declared.history_days is None:
            dated = dated.mutate(**{begin: ibis.literal(0, "int32")})
        else:
            dated = dated.mutate(first_day=dated["sequence_day"] - declared.history_days)
            dated = count_before(dated, "first_day", events, "day", begin).drop("first_day")
        delay = declared.delay
        dated = dated.mutate(logged_before=dated["time"] - delay + (1 if delay else 0))
        dated = count_before(dated, "logged_before", events, "time", end).drop("logged_before")
        names += [begin, end]
    own = [name for name in columns if name not in (PARTITION, "day")]
    return dated.select(*own, *names, PARTITION)


def _sample_day(samples: "ir.Table", protocol: ProtocolParameters) -> Any:
    return samples["day"] if "day" in samples.columns else days_of(samples["time"], protocol.calendar)


def _require_events(engine: Engine, name: str, declared: SequenceColumns, k: int, source: str) -> None:
    """Check that a sequence has events."""
    if engine.has_rows(f"sequence_{k}"):
        return
    raise InputError(
        f"features.sequences.{name}: none of the {declared.source} belongs to it; change where, or remove the sequence"
    )


@dataclass(frozen=True)
class SequenceArrays:
    """How the arrays of a sequence follow from its events.

    Attributes:
        schema: fields of an event.
        times: whether the log has times.
    """

    schema: Sequence
    times: bool


def sequence_arrays(
    features: FeatureColumns, tables: FeatureTables, own: Mapping[str, LearnedColumn]
) -> dict[str, SequenceArrays]:
    """Return the fields of each sequence."""
    coded = {name: column.coded() for name, column in own.items()}
    return {
        name: SequenceArrays(
            Sequence(behavior=sequence_fields(declared, tables, coded), max_len=declared.max_len),
            GAP in declared.behavior,
        )
        for name, declared in features.sequences.items()
    }
