"""What the files of a run need and kedro-datasets do not have: atomic writes, checksums, and the pipeline that writes them.

The catalog names kedro-datasets, such as ``pandas.ParquetDataset``. An entry with ``metadata: {pipeline: NAME}`` is a file that
runs write and read back; `with_checks` replaces its type by the same class with the mixin `Checked`, ``pandas.ParquetDataset`` by
``deep_interest.datasets.checked.pandas_ParquetDataset``. All arguments stay those of kedro-datasets.
"""

import copy
import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import fsspec
from kedro.io import DatasetError
from kedro.utils import load_obj

from deep_interest.experiments import pipeline_name
from deep_interest.io.atomic import atomic_path
from deep_interest.io.checksums import damage_of

if TYPE_CHECKING:
    from kedro.io import AbstractVersionedDataset as Base
else:
    Base = object

LOCAL = "file"


class Checked(Base):
    """Mixin of datasets that are one file in a file system of fsspec, before the dataset's class in the list of bases.

    Saving is atomic: the dataset writes a temporary local file, which then takes the place of the old one, or is uploaded. A
    local file has its SHA-256 next to it, which is compared before each load; an object store compares checksums itself.
    ``metadata["pipeline"]`` names the pipeline that writes the file, for messages; in ``<dataset>.<model>`` the model may be a
    tuned model or an ablation table.
    """

    metadata: Any
    _fs: Any
    _protocol: str
    _temporary: PurePosixPath | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        name_arguments(cls)
        super().__init_subclass__(**options)
        if hasattr(cls, "preview"):
            cls.preview = _preview_of(cls.preview)

    def load(self) -> Any:
        """Verify the checksum and load the file.

        Raises:
            DatasetError: the file does not exist, is damaged or was edited.
        """
        pipeline = (self.metadata or {}).get("pipeline")
        if not self.exists():
            raise DatasetError(missing_message(self._location(self._filepath), pipeline))
        if self._protocol == LOCAL:
            check_file(Path(self._get_load_path()), pipeline)
        base: Any = super()
        data = base.load()
        _release_memory()
        return data

    def save(self, data: Any) -> None:
        """Write the file atomically; see the class.

        Raises:
            InputError: the disk is full.
        """
        path = self._get_save_path()
        with self._replaced(path) as temporary:
            twin = copy.copy(self)
            twin._fs, twin._temporary = fsspec.filesystem(LOCAL), PurePosixPath(temporary)
            # Kedro's wrapper of `save`, with its errors and versions, is around this method, so not around the inner one.
            base: Any = super(Checked, twin)
            base.save.__wrapped__(twin, data)
        self._fs.invalidate_cache(str(path))

    def _get_save_path(self) -> PurePosixPath:
        return self._temporary or super()._get_save_path()

    @contextmanager
    def _replaced(self, path: PurePosixPath, *, checksum: bool = True) -> Iterator[Path]:
        """Yield a temporary local path; its content replaces the file when the block ends without an error."""
        if self._protocol == LOCAL:
            with atomic_path(Path(path), checksum=checksum) as temporary:
                yield temporary
        else:
            with tempfile.TemporaryDirectory() as folder:
                yield Path(folder, path.name)
                self._fs.put_file(str(Path(folder, path.name)), str(path))

    def _location(self, path: PurePosixPath) -> str:
        return str(path) if self._protocol == LOCAL else f"{self._protocol}://{path}"


@cache
def checked(dataset: type) -> type:
    """Return a class of datasets with the mixin `Checked`.

    Args:
        dataset: class of datasets that are one file, of the kind that kedro-datasets has.
    """
    if issubclass(dataset, Checked):
        return dataset
    name = f"{dataset.__module__.split('.')[1]}_{dataset.__name__}"
    # Pickle finds the class under this name, see `__getattr__`; the parallel runner needs that.
    return type(name, (Checked, dataset), {"__module__": __name__, "__doc__": dataset.__doc__})


def name_arguments(cls: Any) -> None:
    """Give a class without a constructor of its own one with the signature of its base's.

    Kedro describes a dataset by the arguments of its class's constructor, for instance in ``kedro catalog resolve-patterns``; of an
    inherited one, which Kedro has wrapped, it sees ``args`` and ``kwargs`` alone.
    """
    if "__init__" in vars(cls):
        return
    inherited = cls.__init__

    @wraps(inherited)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        inherited(self, *args, **kwargs)

    init.__signature__ = inspect.signature(inherited)  # type: ignore[attr-defined]
    cls.__init__ = init


def _preview_of(preview: Callable[..., Any]) -> Callable[..., Any]:
    """Preview nothing before the first run. Kedro-Viz reads the kind of a preview from its annotation, so that is kept."""

    @wraps(preview)
    def preview_if_written(self: Any, *args: Any, **options: Any) -> Any:
        return preview(self, *args, **options) if self.exists() else None

    return preview_if_written


def __getattr__(name: str) -> type:
    """Make ``pandas_ParquetDataset`` of ``kedro_datasets.pandas.ParquetDataset``, when Kedro asks for it."""
    package, _, dataset = name.partition("_")
    if name.startswith("_") or not dataset:
        raise AttributeError(name)
    return checked(load_obj(f"kedro_datasets.{package}.{dataset}"))


def with_checks(catalog: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a catalog in which kedro-datasets that runs write have the mixin `Checked`.

    Args:
        catalog: configuration of the catalog; entries without ``metadata: {pipeline: NAME}`` stay unchanged.
    """
    return {name: _with_checks(entry) for name, entry in catalog.items()}


def _with_checks(entry: Any) -> Any:
    if not isinstance(entry, Mapping) or not (entry.get("metadata") or {}).get("pipeline"):
        return entry
    package, _, dataset = str(entry.get("type")).removeprefix("kedro_datasets.").partition(".")
    if not dataset or "." in dataset:  # a class of this project, or of another package
        return entry
    return {**entry, "type": f"{__name__}.{package}_{dataset}"}


def check_file(path: Path, pipeline: str | None) -> None:
    """Compare a file or folder with its checksums.

    Args:
        path: file or folder to check.
        pipeline: pipeline that writes it, for the message.

    Raises:
        DatasetError: the file is damaged, was edited, or has no checksums.
    """
    if damage := damage_of(path):
        raise DatasetError(f"{path}: {damage}; run {_command(pipeline)} to write it again")


def missing_message(location: str, pipeline: str | None) -> str:
    """Say that a file does not exist and which command writes it."""
    return f"{location} does not exist; run {_command(pipeline)} first (see 'kedro registry list')"


def _command(pipeline: str | None) -> str:
    if pipeline is None:
        return "the pipeline that writes it"
    dataset, _, model = pipeline.partition(".")
    return f"`kedro run --pipelines={pipeline_name(dataset, model) if model else pipeline}`"


def _release_memory() -> None:
    """Give back what Arrow needed to read Parquet; otherwise training keeps it."""
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
