"""Training samples in memory, for models that are fitted in one step."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from deep_interest.models.batch import Batch, ValueSetLookup


@dataclass
class SamplesInMemory:
    """Samples with explicit histories; see `models.closed_form.TrainingSamples`.

    Attributes:
        candidate: ``{field: (n,)}`` codes.
        histories: ``{field: n lists of codes}``, oldest first.
        labels: ``(n,)``.
        user: ``(n,)`` user codes; each sample has a user of its own by default.
        profile, context: ``{field: (n,)}`` codes.
        value_sets: value sets of multi-hot fields.
    """

    candidate: dict[str, Tensor]
    histories: dict[str, list[list[int]]]
    labels: Tensor
    user: Tensor | None = None
    profile: dict[str, Tensor] = field(default_factory=dict)
    context: dict[str, Tensor] = field(default_factory=dict)
    value_sets: dict[str, ValueSetLookup] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.labels = torch.as_tensor(self.labels, dtype=torch.float32)
        groups = (self.candidate, self.profile, self.context)
        for group in groups:
            group.update({name: torch.as_tensor(codes, dtype=torch.int32) for name, codes in group.items()})
        user = torch.arange(len(self)) if self.user is None else self.user
        self.user = torch.as_tensor(user, dtype=torch.int32)

    def __len__(self) -> int:
        return len(self.labels)

    def candidates(self) -> dict[str, Tensor]:
        return self.candidate

    def batch(self, rows: Tensor) -> Batch:
        lengths = [len(next(iter(self.histories.values()))[row]) for row in rows.tolist()]

        def at_rows(group):
            return {name: codes[rows] for name, codes in group.items()}

        return Batch(
            candidate=at_rows(self.candidate),
            history={
                name: torch.tensor([code for row in rows.tolist() for code in lists[row]], dtype=torch.int32)
                for name, lists in self.histories.items()
            },
            offsets=torch.from_numpy(np.append(0, np.cumsum(lengths)).astype(np.int64)),
            profile=at_rows(self.profile), context=at_rows(self.context), labels=self.labels[rows],
            value_sets=self.value_sets,
        )  # fmt: skip
