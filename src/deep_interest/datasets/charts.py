"""Dataset of a chart: interactive in Kedro-Viz, and a PNG next to it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kedro_datasets.plotly import JSONDataset

from deep_interest.datasets.checked import Checked
from deep_interest.io.atomic import atomic_path

if TYPE_CHECKING:
    from deep_interest.figures.chart import Chart


class _PlotlyJSON(JSONDataset):
    def load(self) -> dict[str, Any]:
        with self._fs.open(str(self._get_load_path()), "rb") as file:
            return json.load(file)

    def save(self, data: "Chart") -> None:
        from deep_interest.figures.plotly import plotly_figure  # noqa: PLC0415

        with self._fs.open(str(self._get_save_path()), **self._fs_open_args_save) as file:
            file.write(json.dumps(plotly_figure(data)) + "\n")


class ChartFile(Checked, _PlotlyJSON):
    """``plotly.JSONDataset`` of a `Chart`, with a PNG of the same name next to it; loading returns the JSON values.

    The arguments are those of ``plotly.JSONDataset``.
    """

    def save(self, data: "Chart") -> None:
        """Write the PNG, then the JSON file, each atomically."""
        with self._replaced(self._get_save_path().with_suffix(".png"), checksum=False) as temporary:
            _draw(data, temporary)
        super().save(data)


def write_png(chart: "Chart", path: Path) -> None:
    """Write a chart as PNG."""
    with atomic_path(path) as temporary:
        _draw(chart, temporary)


def _draw(chart: "Chart", path: Path) -> None:
    from deep_interest.figures.png import matplotlib_figure  # noqa: PLC0415

    matplotlib_figure(chart).savefig(path, format="png", dpi=160, bbox_inches="tight")
