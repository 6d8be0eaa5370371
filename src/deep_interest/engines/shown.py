"""``protocol.auxiliary_negatives: shown``: items that were shown before a behaviour and not clicked, as expressions."""

from typing import TYPE_CHECKING

from deep_interest.engines.engine import Engine
from deep_interest.engines.ordered_log import count_before
from deep_interest.logs.hashing import Purpose
from deep_interest.logs.sequences import NEWEST_SHOWN

if TYPE_CHECKING:
    import ibis.expr.types as ir


def with_shown_negatives(engine: Engine, log: "ir.Table", impressions: "ir.Table", seed: int) -> "ir.Table":
    """Add the column ``negative`` to the sorted log, as `logs.sequences.shown_negatives` computes it.

    Args:
        engine: engine.
        log: sorted log with ``position``.
        impressions: encoded impressions, all that the source has.
        seed: seed of the protocol.
    """
    import ibis  # noqa: PLC0415

    skipped = impressions.filter(impressions["label"] == 0)
    skipped = skipped.mutate(tie=engine.hash63(seed, Purpose.TIE, skipped["user"], skipped["item"]))
    order = [skipped["time"], skipped["tie"], skipped["item"]]
    rank = ibis.row_number().over(ibis.window(group_by="user", order_by=order))
    skipped = skipped.select(
        "partition", "user", "time", shown_rank=rank.cast("int64"), shown_item=skipped["item"]
    )
    log = count_before(log, "time", skipped, "time", "shown_before")
    before = log["shown_before"].cast("int64")
    candidates = ibis.least(before, NEWEST_SHOWN)
    back = engine.below(seed, Purpose.SHOWN_NEGATIVE, candidates, log["user"], log["position"])
    log = log.mutate(wanted_rank=before - 1 - back)
    items = skipped.select(
        shown_user=skipped["user"], shown_rank=skipped["shown_rank"], shown_item=skipped["shown_item"]
    )
    joined = log.left_join(
        items, [log["user"] == items["shown_user"], log["wanted_rank"] == items["shown_rank"]]
    )
    negative = ibis.ifelse(joined["shown_item"] == joined["item"], 0, joined["shown_item"]).fill_null(0)
    return joined.mutate(negative=negative.cast("int32")).drop(
        "shown_before", "wanted_rank", "shown_user", "shown_rank", "shown_item"
    )
