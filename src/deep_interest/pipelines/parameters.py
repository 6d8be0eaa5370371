"""Parameters of datasets in ``parameters/datasets.yml``."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from deep_interest.config import as_list, rename_key
from deep_interest.logs.feature_columns import GAP, TIME_FEATURES, USER_ID, FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.sources.tables.declaration import Source
from deep_interest.training.parameters import KnownOptions


class ReadingParameters(BaseModel):
    """Parameters of reading raw files.

    Attributes:
        on_bad_line: treatment of a malformed line of Amazon's reviews, or of a row of declared tables without a valid
            id, time or label: ``error`` raises an error, ``skip`` skips and counts the line.
        repeated_impressions: treatment of impressions with the same user, item, time and label: ``drop`` keeps the
            first and counts the others, ``keep`` keeps all.
        category: category of a MovieLens movie: its ``first_genre``, or the combination of ``all_genres``.
        tie_seed: seed of the hash that orders behaviours of a user with the same time.
        max_users: number of randomly selected users to keep, for a quick test; None for all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    on_bad_line: Literal["error", "skip"] = "error"
    category: Literal["first_genre", "all_genres"] = "first_genre"
    repeated_impressions: Literal["drop", "keep"] = "drop"
    tie_seed: int = Field(0, ge=0)
    max_users: int | None = Field(None, ge=1)


class IngestParameters(BaseModel):
    """How declared tables are read.

    Attributes:
        memory_limit: memory of the database that reads tables, such as ``4GB``; behaviours and impressions are then written to disk in
            parts, for environments that read them on an engine. Tables in memory if None.
        rows_per_partition: approximate number of rows of a part.
        workspace: folder for the database and the parts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_limit: str | None = None
    rows_per_partition: int = Field(4_000_000, ge=1)
    workspace: str = "data/02_intermediate"


class DatasetScoring(BaseModel):
    """Batch scoring of a dataset.

    Attributes:
        context: ``{context feature: value}`` for features that are not columns of the users' table;
            ``retraining.scoring.context`` overrides them for a run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    context: dict[str, int | float | str] = {}


class DatasetParameters(BaseModel):
    """Parameters of a dataset.

    Attributes:
        title: heading of the results table.
        protocol: protocol that derives samples.
        source: declaration of the user's own tables; None for built-in datasets.
        reading: parameters of reading raw files.
        features: feature columns and their encodings.
        seeds: seeds of the fits, one fit per seed; the run may override them.
        recipe: name of the training recipe; the run may override it.
        training: training options that override those of the recipe.
        models: keys of the models in the results table, validated by `experiments.datasets_of`; None for all models.
        scoring: parameters of batch scoring.
        simulation: parameters of the simulation that differ from those of the simulated shop (``simulated_<name>`` only).
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
    models: Annotated[tuple[str, ...] | None, BeforeValidator(as_list)] = None
    scoring: DatasetScoring = DatasetScoring()
    simulation: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _rename_rows(cls, block: Any) -> Any:
        return rename_key(block, "rows", "models")

    @model_validator(mode="after")
    def _order_has_no_times(self) -> "DatasetParameters":
        """Check that nothing needs times if the rows of the files are only in order."""
        if self.source is None or self.source.has_times:
            return self
        if self.protocol.name == "by_day":
            raise ValueError(
                "protocol by_day splits by day, but the source has order: file, which declares a log without times; use next_item, "
                "last_item, rated or given, or declare the time"
            )
        read = {name for block in self.source.behaviors for name in block.columns}
        read |= {name for block in self.source.impressions if block.history for name in block.history.columns}
        needs_time = {GAP} | set(TIME_FEATURES) - read
        if timed := [name for name in self.features.own if name in needs_time]:
            raise ValueError(
                f"features.behavior: {', '.join(timed)} needs the time of each behaviour, but the source has order: file, which declares "
                "a log without times; remove it, declare the time, or, except for gap, map its column under columns"
            )
        dated = {"protocol.history_days": self.protocol.history_days} | {
            f"features.sequences.{key}": of.history_days or of.delay or needs_time & set(of.behavior)
            for key, of in self.features.sequences.items()
        }
        if names := [name for name, value in dated.items() if value]:
            raise ValueError(
                f"{', '.join(names)} compares times, but the source has order: file, which declares a log without times; remove it, or "
                "declare the time"
            )
        return self

    @model_validator(mode="after")
    def _given_histories_have_no_times(self) -> "DatasetParameters":
        if self.source is None or not self.source.has_histories:
            return self
        columns = {
            name for block in self.source.impressions if block.history for name in block.history.columns
        }
        needs_time = {GAP} | set(TIME_FEATURES) - columns
        if timed := [name for name in self.features.own if name in needs_time]:
            raise ValueError(
                f"features.behavior: {', '.join(timed)} needs the time of each behaviour, but source.impressions.history gives "
                "histories without times; remove it, or, except for gap, name its list under history.columns"
            )
        comparing = {
            "protocol.history_days": self.protocol.history_days is not None,
            "protocol.auxiliary_negatives: shown": self.protocol.auxiliary_negatives == "shown",
        } | {
            f"features.sequences.{key}": sequence.source == "behaviors" or not self.source.has_times
            for key, sequence in self.features.sequences.items()
        }
        if names := [name for name, compares in comparing.items() if compares]:
            raise ValueError(
                f"{', '.join(names)} compares the times of events with that of the sample, but source.impressions.history gives "
                "histories without times; remove it, or declare source.behaviors instead of the history"
            )
        return self

    @model_validator(mode="after")
    def _given_splits_are_used(self) -> "DatasetParameters":
        given = self.protocol.name == "given"
        if given and (self.source is None or not self.source.has_splits):
            raise ValueError(
                "protocol given uses the split of each row, but the source has none; set source.impressions.split to its column, or to "
                "the files of each split"
            )
        if given and (dated := [key for key, of in self.features.sequences.items() if of.history_days]):
            raise ValueError(
                f"features.sequences.{dated[0]}.history_days counts days, but protocol given does not split by day; remove it"
            )
        if self.source is not None and self.source.has_splits and not given:
            raise ValueError(
                f"source.impressions.split gives the split of each row, but protocol {self.protocol.name} makes its own; set protocol: "
                "{name: given}, or remove split"
            )
        if self.protocol.list_negatives is not None and (self.source is None or not self.source.has_requests):
            raise ValueError(
                "protocol.list_negatives needs impressions that were shown together; set source.impressions.request to the column of "
                "their ids, or sequence to the column of lists"
            )
        return self

    @model_validator(mode="after")
    def _features_can_be_read(self) -> "DatasetParameters":
        if self.source is None or self.source.impressions:
            return self
        if self.features.context:
            raise ValueError(
                f"features.context describes impressions, but the dataset has none; remove {', '.join(self.features.context)}"
            )
        if self.features.position is not None:
            raise ValueError(
                f"features.position names a column of impressions, but the dataset has none; remove {self.features.position}"
            )
        if columns := [name for name in self.features.profile if name != USER_ID]:
            raise ValueError(
                f"features.profile: the user table is used with impressions only, and the dataset has none; remove {', '.join(columns)}"
            )
        return self
