"""What people read: pages, pictures, small facts."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kedro_datasets._typing import JSONPreview, PlotlyPreview

from deep_interest.datasets.local import LocalDataset, check_file
from deep_interest.io.atomic import atomic_path

if TYPE_CHECKING:
    from deep_interest.figures.chart import Chart


class TextFile(LocalDataset[str]):
    """A text file."""

    def read(self, path: Path) -> str:
        return path.read_text(encoding="utf-8")

    def write(self, data: str, path: Path) -> None:
        with atomic_path(path, checksum=True) as temporary:
            temporary.write_text(data, encoding="utf-8")


class JSONFile(LocalDataset[dict[str, Any]]):
    """Plain values.

    Args:
        filepath, pipeline, metadata: as of `LocalDataset`.
        optional: loading gives an empty dictionary when it is missing.
    """

    def __init__(
        self, *, filepath: str, optional: bool = False, pipeline: str | None = None, metadata: dict[str, Any] | None = None
    ) -> None:  # fmt: skip
        super().__init__(filepath=filepath, pipeline=pipeline, metadata=metadata)
        self._optional = optional

    def load(self) -> dict[str, Any]:
        return {} if self._optional and not self._exists() else super().load()

    def read(self, path: Path) -> dict[str, Any]:
        return json.loads(path.read_text(encoding="utf-8"))

    def write(self, data: dict[str, Any], path: Path) -> None:
        with atomic_path(path, checksum=True) as temporary:
            temporary.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")

    def preview(self) -> JSONPreview:
        """The values, for Kedro-Viz; None before the first run."""
        return json.dumps(self.read(self._filepath)) if self._exists() else None


class JSONFiles(LocalDataset[dict[str, dict[str, Any]]]):
    """Plain values by folder: those of each ``<folder>/<name>`` that is there; read only.

    Args:
        filepath: the parent of the folders.
        name: of the file in each (Kedro takes an argument `filename` for a path from the project).
        pipeline: the files of a folder are written by the pipeline ``<pipeline>.<folder>``.
        metadata: for Kedro-Viz.
    """

    def __init__(
        self, *, filepath: str, name: str, pipeline: str | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        super().__init__(filepath=filepath, pipeline=pipeline, metadata=metadata)
        self._name = name

    def load(self) -> dict[str, dict[str, Any]]:
        return {path.parent.name: self.read(path) for path in sorted(self._filepath.glob(f"*/{self._name}"))}

    def read(self, path: Path) -> dict[str, Any]:
        check_file(path, self._pipeline and f"{self._pipeline}.{path.parent.name}")
        return json.loads(path.read_text(encoding="utf-8"))


class ChartFiles(LocalDataset[dict[str, dict[str, Any]]]):
    """Charts that other pipelines have drawn, by ``<folder>_<name>``: the JSON of each ``<folder>/<name>.json`` that is there; read only.

    Args:
        filepath: the parent of the folders.
        names: of charts, in the order in which they come, each with the pipeline that draws it: as of `JSONFiles`.
        metadata: for Kedro-Viz.
    """

    def __init__(
        self, *, filepath: str, names: dict[str, str], metadata: dict[str, Any] | None = None
    ) -> None:
        super().__init__(filepath=filepath, metadata=metadata)
        self._names = names

    def load(self) -> dict[str, dict[str, Any]]:
        found = {
            name: JSONFiles(filepath=str(self._filepath), name=f"{name}.json", pipeline=pipeline).load()
            for name, pipeline in self._names.items()
        }
        return {
            f"{folder}_{name}": chart for name, charts in found.items() for folder, chart in charts.items()
        }


class ChartFile(LocalDataset[Any]):
    """A chart, written as Plotly's JSON and as PNG next to it; loading gives the JSON. Interactive in Kedro-Viz.

    Args:
        filepath: of the JSON; the picture has the same name and ends in ``.png``.
        pipeline, metadata: as of `LocalDataset`.
    """

    def read(self, path: Path) -> dict[str, Any]:
        return json.loads(path.read_text(encoding="utf-8"))

    def write(self, data: "Chart", path: Path) -> None:
        from deep_interest.figures.plotly import plotly_figure  # noqa: PLC0415

        write_png(data, path.with_suffix(".png"))
        with atomic_path(path, checksum=True) as temporary:
            temporary.write_text(json.dumps(plotly_figure(data)) + "\n", encoding="utf-8")

    def preview(self) -> PlotlyPreview:
        """The figure, for Kedro-Viz; None before the first run."""
        return self.read(self._filepath) if self._exists() else None


def write_png(chart: "Chart", path: Path) -> None:
    """Write a chart as a picture."""
    from deep_interest.figures.png import matplotlib_figure  # noqa: PLC0415

    with atomic_path(path) as temporary:
        matplotlib_figure(chart).savefig(temporary, format="png", dpi=160, bbox_inches="tight")
