"""Match counts of an exported model (`models.match_counts`), for one user and C candidates."""

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_interest.export.inputs import CANDIDATES, HISTORY
from deep_interest.export.request import Request, table_of
from deep_interest.export.search import newest_matching
from deep_interest.models.match_counts import MOST_MATCHES, MatchCounts


def match_counts(module: MatchCounts, request: Request) -> Tensor:
    """Return the counts of each candidate, ``(C, width)``."""
    counts = []
    for sequence, fields in module.counted.items():
        group, own = sequence or HISTORY, module.weighted[sequence]
        rows = [
            F.embedding(request.codes(group, name), table_of(module.log_weights, name).weight) for name in own
        ]
        for field in fields:
            seen = request.codes(group, field.name)
            ages = torch.arange(seen.shape[0], device=seen.device).flip(0)
            weights = module.weights(rows, ages)  # (T, counts)
            matches = newest_matching(
                F.pad(seen, (1, 0)), request.codes(CANDIDATES, field.name), MOST_MATCHES
            )
            counts.append(matches[:, 1:].to(weights.dtype) @ weights)
    return torch.cat(counts, dim=1).log1p()
