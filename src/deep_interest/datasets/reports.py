"""What people read: pages, pictures, small facts."""

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kedro_datasets._typing import ImagePreview, JSONPreview

from deep_interest.datasets.local import LocalDataset
from deep_interest.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class TextFile(LocalDataset[str]):
    """A text file."""

    def read(self, path: Path) -> str:
        return path.read_text(encoding="utf-8")

    def write(self, data: str, path: Path) -> None:
        with atomic_path(path) as temporary:
            temporary.write_text(data, encoding="utf-8")


class JSONFile(LocalDataset[dict[str, Any]]):
    """Plain values."""

    def read(self, path: Path) -> dict[str, Any]:
        return json.loads(path.read_text(encoding="utf-8"))

    def write(self, data: dict[str, Any], path: Path) -> None:
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")

    def preview(self) -> JSONPreview:
        """The values, for Kedro-Viz; None before the first run."""
        return json.dumps(self.read(self._filepath)) if self._exists() else None


class PNGFigure(LocalDataset["Figure"]):
    """A matplotlib figure as a picture; shown in Kedro-Viz."""

    def write(self, data: "Figure", path: Path) -> None:
        with atomic_path(path) as temporary:
            data.savefig(temporary, format="png", dpi=160, bbox_inches="tight")

    def preview(self) -> ImagePreview:
        """The picture, for Kedro-Viz; None before the first run."""
        return base64.b64encode(self._filepath.read_bytes()).decode() if self._exists() else None
