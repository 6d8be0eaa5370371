"""Models that are fitted in one step to the training samples, without gradients."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch

CHUNK = 4096  # samples whose histories are in memory at once


class TrainingSamples(Protocol):
    """The n training samples that `fit` reads; `training.data.SampleSet` has this interface.

    Histories are never in memory all at once: a model reads them batch by batch.
    """

    @property
    def labels(self) -> Tensor:
        """``(n,)`` in {0, 1}."""

    @property
    def user(self) -> Tensor:
        """``(n,)`` user codes."""

    def __len__(self) -> int: ...

    def candidates(self) -> dict[str, Tensor]:
        """Return ``{field: (n,)}`` codes of the candidate of each sample."""

    def batch(self, rows: Tensor) -> Batch:
        """Gather the samples ``rows (B,)`` (int64, on the CPU) and their histories."""


def batches(samples: TrainingSamples, rows: Tensor, *, size: int = CHUNK) -> Iterator[tuple[Tensor, Batch]]:
    """Yield the samples ``rows (m,)`` in batches: their indices ``(B,)`` and the batch."""
    for chosen in rows.split(size):
        yield chosen, samples.batch(chosen)


class FittedModel(nn.Module, ABC):
    """A model with buffers whose sizes depend on the training samples; loading a state resizes them.

    Attributes:
        sized_by_fit: names of these buffers.
    """

    sized_by_fit: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_pre_hook(_resize_buffers)

    @abstractmethod
    def fit(self, samples: TrainingSamples) -> None:
        """Compute the state from training samples."""


def _resize_buffers(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    assert isinstance(module, FittedModel)
    for name in module.sized_by_fit:
        if prefix + name in state:
            saved = state[prefix + name]
            setattr(module, name, saved.new_empty(saved.shape, device=getattr(module, name).device))


def number_of_items(schema: FeatureSchema, model: str) -> int:
    """Return the number of codes of the item id.

    Args:
        schema: feature groups.
        model: key of the model, for the error message.

    Raises:
        InputError: the candidate has no item id.
    """
    sizes = {field.name: field.size for field in schema.item}
    if ITEM_ID not in sizes:
        raise InputError(
            f"features.item: {model} counts {ITEM_ID}, but the item fields are {', '.join(sizes)}; add {ITEM_ID}, or remove "
            f"{model} from models"
        )
    return sizes[ITEM_ID]
