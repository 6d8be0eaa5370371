"""What people read: pages, pictures, small facts."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kedro.io import AbstractDataset, DatasetError
from kedro_datasets._typing import JSONPreview, PlotlyPreview

from deep_interest.datasets.local import LocalDataset
from deep_interest.files import atomic_path

if TYPE_CHECKING:
    from deep_interest.figures.chart import Chart


class TextFile(LocalDataset[str]):
    """A text file."""

    def read(self, path: Path) -> str:
        return path.read_text(encoding="utf-8")

    def write(self, data: str, path: Path) -> None:
        with atomic_path(path) as temporary:
            temporary.write_text(data, encoding="utf-8")


class JSONFile(LocalDataset[dict[str, Any]]):
    """Plain values.

    Args:
        filepath: the file.
        optional: loading gives an empty dictionary when it is missing.
        metadata: for Kedro-Viz.
    """

    def __init__(
        self, *, filepath: str, optional: bool = False, metadata: dict[str, Any] | None = None
    ) -> None:
        super().__init__(filepath=filepath, metadata=metadata)
        self._optional = optional

    def load(self) -> dict[str, Any]:
        return {} if self._optional and not self._exists() else super().load()

    def read(self, path: Path) -> dict[str, Any]:
        return json.loads(path.read_text(encoding="utf-8"))

    def write(self, data: dict[str, Any], path: Path) -> None:
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")

    def preview(self) -> JSONPreview:
        """The values, for Kedro-Viz; None before the first run."""
        return json.dumps(self.read(self._filepath)) if self._exists() else None


class JSONFiles(LocalDataset[dict[str, dict[str, Any]]]):
    """Plain values by folder: those of each ``<folder>/<name>`` that is there; read only.

    Args:
        filepath: where the folders are.
        name: of the file in each (Kedro takes an argument `filename` for a path from the project).
        metadata: for Kedro-Viz.
    """

    def __init__(self, *, filepath: str, name: str, metadata: dict[str, Any] | None = None) -> None:
        super().__init__(filepath=filepath, metadata=metadata)
        self._name = name

    def load(self) -> dict[str, dict[str, Any]]:
        files = sorted(self._filepath.glob(f"*/{self._name}"))
        return {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in files}


class ChartFiles(LocalDataset[dict[str, dict[str, Any]]]):
    """Charts that other pipelines have drawn, by ``<folder>_<name>``: the JSON of each ``<folder>/<name>.json`` that is there; read only.

    Args:
        filepath: where the folders are.
        names: of charts, in the order in which they come.
        metadata: for Kedro-Viz.
    """

    def __init__(self, *, filepath: str, names: list[str], metadata: dict[str, Any] | None = None) -> None:
        super().__init__(filepath=filepath, metadata=metadata)
        self._names = names

    def load(self) -> dict[str, dict[str, Any]]:
        found = {
            name: JSONFiles(filepath=str(self._filepath), name=f"{name}.json").load() for name in self._names
        }
        return {
            f"{folder}_{name}": chart for name, charts in found.items() for folder, chart in charts.items()
        }


class ChartFile(AbstractDataset["Chart", dict[str, Any]]):
    """A chart, written as Plotly's JSON and beside it as PNG; loading gives the JSON. Interactive in Kedro-Viz.

    Args:
        filepath: of the JSON; the picture has the same name and ends in ``.png``.
        metadata: for Kedro-Viz.
    """

    def __init__(self, *, filepath: str, metadata: dict[str, Any] | None = None) -> None:
        self._filepath = Path(filepath)
        self.metadata = metadata

    def save(self, data: "Chart") -> None:
        from deep_interest.figures.plotly import plotly_figure  # noqa: PLC0415

        write_png(data, self._filepath.with_suffix(".png"))
        with atomic_path(self._filepath) as temporary:
            temporary.write_text(json.dumps(plotly_figure(data)) + "\n", encoding="utf-8")

    def load(self) -> dict[str, Any]:
        if not self._exists():
            raise DatasetError(
                f"{self._filepath} is not there; run the pipeline that draws it first (see 'kedro registry list')"
            )
        return json.loads(self._filepath.read_text(encoding="utf-8"))

    def preview(self) -> PlotlyPreview:
        """The figure, for Kedro-Viz; None before the first run."""
        return self.load() if self._exists() else None

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath)}

    def _exists(self) -> bool:
        return self._filepath.exists()


def write_png(chart: "Chart", path: Path) -> None:
    """Write a chart as a picture."""
    from deep_interest.figures.png import matplotlib_figure  # noqa: PLC0415

    with atomic_path(path) as temporary:
        matplotlib_figure(chart).savefig(temporary, format="png", dpi=160, bbox_inches="tight")
