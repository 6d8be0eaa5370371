"""Datasets of reports: text, JSON and charts."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kedro_datasets._typing import JSONPreview, PlotlyPreview

from deep_interest.datasets.local import LocalDataset, check_file
from deep_interest.io.atomic import atomic_path

if TYPE_CHECKING:
    from deep_interest.figures.chart import Chart


class TextFile(LocalDataset[str, str]):
    """Text file in UTF-8."""

    def read(self, path: Path) -> str:
        return path.read_text(encoding="utf-8")

    def write(self, data: str, path: Path) -> None:
        with atomic_path(path, checksum=True) as temporary:
            temporary.write_text(data, encoding="utf-8")


class JSONFile(LocalDataset[dict[str, Any], dict[str, Any]]):
    """JSON object of plain values.

    Args:
        filepath, pipeline, metadata: arguments of `LocalDataset`.
        optional: whether loading a missing file returns an empty dictionary instead of raising an error.
    """

    def __init__(
        self,
        *,
        filepath: str,
        optional: bool = False,
        pipeline: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(filepath=filepath, pipeline=pipeline, metadata=metadata)
        self._optional = optional

    def load(self) -> dict[str, Any]:
        """Load the values; see `LocalDataset.load`."""
        return {} if self._optional and not self._exists() else super().load()

    def read(self, path: Path) -> dict[str, Any]:
        return json.loads(path.read_text(encoding="utf-8"))

    def write(self, data: dict[str, Any], path: Path) -> None:
        with atomic_path(path, checksum=True) as temporary:
            temporary.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")

    def preview(self) -> JSONPreview:
        """Return the values for Kedro-Viz, or None before the first run."""
        return json.dumps(self.read(self._filepath)) if self._exists() else None


class JSONFiles(LocalDataset[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]):
    """JSON objects by folder: one for each existing ``<folder>/<name>``; read-only.

    Args:
        filepath: parent of the folders.
        name: file name in each folder (Kedro would treat an argument called `filename` as a path in the project).
        pipeline: prefix of the pipelines that write the files, for messages: ``<pipeline>.<folder>``.
        metadata: metadata for Kedro-Viz.
    """

    def __init__(
        self, *, filepath: str, name: str, pipeline: str | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        super().__init__(filepath=filepath, pipeline=pipeline, metadata=metadata)
        self._name = name

    def load(self) -> dict[str, dict[str, Any]]:
        """Load all existing files as ``{folder: values}``."""
        return {path.parent.name: self.read(path) for path in sorted(self._filepath.glob(f"*/{self._name}"))}

    def read(self, path: Path) -> dict[str, Any]:
        check_file(path, self._pipeline and f"{self._pipeline}.{path.parent.name}")
        return json.loads(path.read_text(encoding="utf-8"))


class ChartFiles(LocalDataset[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]):
    """Charts of other pipelines: the JSON of each existing ``<folder>/<name>.json``, by ``<folder>_<name>``; read-only.

    Args:
        filepath: parent of the folders.
        names: names of the charts, in the order of the result, and the ``pipeline`` of `JSONFiles` for each.
        metadata: metadata for Kedro-Viz.
    """

    def __init__(
        self, *, filepath: str, names: dict[str, str], metadata: dict[str, Any] | None = None
    ) -> None:
        super().__init__(filepath=filepath, metadata=metadata)
        self._names = names

    def load(self) -> dict[str, dict[str, Any]]:
        """Load all existing charts as ``{<folder>_<name>: chart}``."""
        charts_by_name = {
            name: JSONFiles(filepath=str(self._filepath), name=f"{name}.json", pipeline=pipeline).load()
            for name, pipeline in self._names.items()
        }
        return {
            f"{folder}_{name}": chart
            for name, charts in charts_by_name.items()
            for folder, chart in charts.items()
        }


class ChartFile(LocalDataset[Any, Any]):
    """Chart, saved as Plotly JSON with a PNG next to it; loading returns the JSON. Interactive in Kedro-Viz.

    Args:
        filepath: path of the JSON file; the PNG has the same name with the suffix ``.png``.
        pipeline, metadata: arguments of `LocalDataset`.
    """

    def read(self, path: Path) -> dict[str, Any]:
        return json.loads(path.read_text(encoding="utf-8"))

    def write(self, data: "Chart", path: Path) -> None:
        from deep_interest.figures.plotly import plotly_figure  # noqa: PLC0415

        write_png(data, path.with_suffix(".png"))
        with atomic_path(path, checksum=True) as temporary:
            temporary.write_text(json.dumps(plotly_figure(data)) + "\n", encoding="utf-8")

    def preview(self) -> PlotlyPreview:
        """Return the figure for Kedro-Viz, or None before the first run."""
        return self.read(self._filepath) if self._exists() else None


def write_png(chart: "Chart", path: Path) -> None:
    """Write a chart as PNG."""
    from deep_interest.figures.png import matplotlib_figure  # noqa: PLC0415

    with atomic_path(path) as temporary:
        matplotlib_figure(chart).savefig(temporary, format="png", dpi=160, bbox_inches="tight")
