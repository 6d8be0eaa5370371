"""Search in long histories: the behaviours that a model looks at more closely, selected without gradients.

Shapes: N behaviours, B segments of them (one per sample), P pairs of a segment and one of its behaviours, K the most
behaviours that are selected for a sample, S selected behaviours of all samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels import search as kernels
from deep_interest.ops.limits import MAX_BITS
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.engine import current_engine
from deep_interest.ops.runtime.host_copies import copy_to_device, host_values
from deep_interest.ops.runtime.parallel import run_kernel

FieldRows = Sequence[tuple[Tensor, Tensor]]
"""Table ``(R, D)`` and codes ``(N,)`` of each field; the vector of a behaviour is the concatenation of its rows."""


@dataclass
class Selection(Jagged):
    """Selected behaviours, segment after segment.

    Attributes:
        positions: ``(S,)`` int64 indices of behaviours, ascending within a segment.
    """

    positions: Tensor


def newest_matching(codes: Tensor, targets: Tensor, pairs: Jagged, count: int) -> Selection:
    """Select the newest behaviours of each segment whose code is the segment's target (hard search of SIM).

    Code 0, the unknown, matches nothing. On a GPU the host waits for the number of selected behaviours.

    Args:
        codes: ``(N,)`` int32.
        targets: ``(B,)`` int32.
        pairs: the B segments of the behaviours, oldest behaviour first.
        count: K.
    """
    if codes.is_cpu and current_engine() == "compiled":
        newest, counts = np.empty((pairs.size, count), np.int64), np.empty(pairs.size, np.int64)
        arrays = as_arrays(codes, targets, pairs.offsets, _starts(pairs))
        run_kernel(kernels.find_newest, *arrays, newest, counts, work=pairs.total // 4)
        positions = newest[np.arange(count) >= count - counts[:, None]]
        return _selection(positions, np.append(0, counts.cumsum()), codes.device)
    return plain_newest_matching(codes, targets, pairs, count)


def plain_newest_matching(codes: Tensor, targets: Tensor, pairs: Jagged, count: int) -> Selection:
    """Compute `newest_matching` with torch operations, for any device."""
    wanted = targets[pairs.segments]
    matches = (codes[_positions(pairs)] == wanted) & (wanted > 0)
    seen = torch.cat([matches.new_zeros(1, dtype=torch.int64), matches.cumsum(0)])
    later = seen[pairs.offsets[1:]][pairs.segments] - seen[1:]  # matches of the segment after each pair
    return _chosen(matches & (later < count), pairs)


def dot_scores(fields: FieldRows, queries: Tensor, pairs: Jagged) -> Tensor:
    """Return the dot product of each behaviour with its segment's query, without gradients.

    No vector of a behaviour is formed: the products of its rows are added.

    Args:
        fields: tables and codes of the behaviours.
        queries: ``(B, Σ D)``.
        pairs: the B segments of the behaviours.

    Returns:
        ``(P,)``.
    """
    queries = queries.detach()
    tables = [table.detach() for table, _ in fields]
    if can_use_compiled(queries, *tables):
        scores, segments = queries.new_empty(pairs.total), (pairs.offsets, _starts(pairs))
        column = 0
        for table, (_, codes) in zip(tables, fields, strict=True):
            inputs, own = as_arrays(table, codes, queries), as_arrays(*segments)
            work = pairs.total * table.shape[1]
            run_kernel(kernels.add_dot_scores, *inputs, column, *own, column == 0, scores.numpy(), work=work)
            column += table.shape[1]
        return scores
    shift = _positions(pairs)
    vectors = torch.cat(
        [table[codes[shift]] for table, (_, codes) in zip(tables, fields, strict=True)], dim=1
    )
    return (vectors * queries[pairs.segments]).sum(1)


def sim_hash(fields: FieldRows, planes: Tensor) -> Tensor:
    """Return the SimHash of each vector: bit k is the sign of its product with plane k (Charikar 2002), without gradients.

    A table with no more rows than there are vectors is multiplied with the planes once, and the vectors add up products.

    Args:
        fields: tables and codes of the N vectors.
        planes: ``(Σ D, m)``, m at most `MAX_BITS`.

    Returns:
        ``(N,)`` int64.
    """
    planes = planes.detach()
    tables = [table.detach() for table, _ in fields]
    parts = planes.split([table.shape[1] for table in tables])
    size = len(fields[0][1])
    if can_use_compiled(planes, *tables):
        products, codes, begin = [], [], 0
        for table, part, (_, rows) in zip(tables, parts, fields, strict=True):
            is_small = len(table) <= size
            products.append((table if is_small else table.index_select(0, rows)) @ part)
            codes.append((rows if is_small else torch.arange(size)) + begin)
            begin += len(products[-1])
        fingerprints = np.empty(size, np.uint64)
        arrays = as_arrays(torch.cat(products), torch.stack(codes))
        run_kernel(kernels.pack_signs, *arrays, fingerprints, work=size * planes.shape[1])
        return torch.from_numpy(fingerprints.view(np.int64))
    vectors = torch.cat([table[codes] for table, (_, codes) in zip(tables, fields, strict=True)], dim=1)
    bits = (vectors @ planes > 0).long()
    return (bits << torch.arange(planes.shape[1], device=planes.device)).sum(1)


def hamming_scores(fingerprints: Tensor, queries: Tensor, pairs: Jagged) -> Tensor:
    """Return the negative Hamming distance of each behaviour to its segment's query.

    Args:
        fingerprints: ``(N,)`` int64.
        queries: ``(B,)`` int64.
        pairs: the B segments of the behaviours.

    Returns:
        ``(P,)`` float32.
    """
    if fingerprints.is_cpu and current_engine() == "compiled":
        scores = torch.empty(pairs.total, device=pairs.offsets.device)
        of_behaviors, of_queries, *segments = as_arrays(fingerprints, queries, pairs.offsets, _starts(pairs))
        words = of_behaviors.view(np.uint64), of_queries.view(np.uint64)
        run_kernel(kernels.hamming_scores, *words, *segments, scores.numpy(), work=pairs.total)
        return scores
    differing = fingerprints[_positions(pairs)] ^ queries[pairs.segments]
    shifts = torch.arange(MAX_BITS, device=differing.device)
    return -torch.stack([(differing >> shift) & 1 for shift in shifts.tolist()]).sum(0).float()


def top_scores(scores: Tensor, pairs: Jagged, count: int) -> Selection:
    """Select the behaviours with the highest scores of each segment; of equal scores the newest.

    Args:
        scores: ``(P,)``.
        pairs: the B segments of the behaviours, oldest behaviour first.
        count: K.
    """
    ends = np.append(0, np.diff(pairs.host_offsets).clip(max=count).cumsum())
    if can_use_compiled(scores):
        positions = np.empty(int(ends[-1]), np.int64)
        arrays = as_arrays(scores, pairs.offsets, _starts(pairs))
        run_kernel(kernels.select_top, *arrays, count, ends, positions, work=pairs.total)
        return _selection(positions, ends, scores.device)
    newest_first = torch.arange(pairs.total - 1, -1, -1, device=scores.device)
    order = newest_first[scores[newest_first].argsort(descending=True, stable=True)]
    order = order[pairs.segments[order].argsort(stable=True)]
    rank = torch.arange(pairs.total, device=scores.device) - pairs.offsets[:-1][pairs.segments]
    is_top = torch.zeros_like(rank, dtype=torch.bool).index_put_((order,), rank < count)
    return _chosen(is_top, pairs, ends)


def _starts(pairs: Jagged) -> Tensor:
    """Return the first behaviour of each segment."""
    return pairs.starts if isinstance(pairs, SharedSegments) else pairs.offsets[:-1]


def _positions(pairs: Jagged) -> Tensor:
    """Return the behaviour of each pair, ``(P,)``."""
    if isinstance(pairs, SharedSegments):
        return pairs.positions
    return torch.arange(pairs.total, device=pairs.offsets.device)


def _chosen(is_chosen: Tensor, pairs: Jagged, ends: np.ndarray | None = None) -> Selection:
    """Return the pairs for which ``is_chosen (P,)``.

    Args:
        is_chosen: bool.
        pairs: segments of the pairs.
        ends: ``(B + 1,)`` offsets of the chosen pairs, if the host knows them.
    """
    if ends is None:
        counts = torch.zeros(pairs.size, dtype=torch.int64, device=is_chosen.device)
        counts.index_add_(0, pairs.segments, is_chosen.long())
        ends = np.append(0, host_values(counts).cumsum())
    chosen = torch.nonzero_static(is_chosen, size=int(ends[-1])).squeeze(1)
    return Selection(copy_to_device(ends, is_chosen.device), _positions(pairs)[chosen])


def _selection(positions: np.ndarray, ends: np.ndarray, device: torch.device) -> Selection:
    return Selection(copy_to_device(ends, device), copy_to_device(positions, device))
