"""The blocks of ``parameters/datasets.yml``."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from deep_interest.config import as_list
from deep_interest.logs.encoding import FeatureColumns
from deep_interest.logs.protocols import ProtocolParameters
from deep_interest.sources.tables.declaration import Source
from deep_interest.training.parameters import KnownOptions


class ReadingParameters(BaseModel):
    r"""How raw files are read.

    Attributes:
        on_bad_line: a broken line of Amazon's reviews, or a row of one's own tables without an id, a time or a label that can be
            understood, is an ``error``, or is left out and counted (``skip``).
        repeated_impressions: the same impression again (user, item, time and label) is left out and counted (``drop``), or counts again (``keep``).
        category: MovieLens' category: the ``first_genre`` listed, or the combination of ``all_genres``.
        tie_seed: seed of the hash that orders behaviours of one user and time.
        max_users: keep a random choice of this many users, for a quick look; all if left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    on_bad_line: Literal["error", "skip"] = "error"
    category: Literal["first_genre", "all_genres"] = "first_genre"
    repeated_impressions: Literal["drop", "keep"] = "drop"
    tie_seed: int = Field(0, ge=0)
    max_users: int | None = Field(None, ge=1)


class DatasetParameters(BaseModel):
    """One dataset.

    Attributes:
        title: heading of its table.
        protocol: how samples are made.
        source: one's own tables; the datasets that code reads have none.
        reading: how raw files are read.
        features: which columns are features.
        seeds: one fit each, unless the run names others.
        recipe: the recipe that fits its models, unless the run names another.
        training: training options of this dataset that go before the recipe's.
        rows: keys of the models in its table; all if left out. `grid.datasets_of` checks them, before the pipelines are made.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    protocol: ProtocolParameters
    source: Source | None = None
    reading: ReadingParameters = ReadingParameters()
    features: FeatureColumns = FeatureColumns()
    seeds: Annotated[tuple[int, ...], BeforeValidator(as_list)] = Field((1, 2, 3, 4, 5), min_length=1)
    recipe: str = "ours"
    training: KnownOptions = {}
    rows: Annotated[tuple[str, ...] | None, BeforeValidator(as_list)] = None
