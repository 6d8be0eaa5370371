"""The log of a simulated world: one folder per day, in the layout that retraining reads.

    <world>/settings.json           parameters that determine the log
    <world>/days/2024-03-01/
        behaviors.parquet           the day's behaviours, with clicks in visits; on the first day also all earlier ones
        impressions.parquet         see `day.simulate_day`
        items.parquet, users.parquet   of all items and users on the first day, empty later
        exposures.parquet           sums by user, see `day.EXPOSURE_SUMS`

The folder of a day is written block by block and renamed when it is complete. A run that is killed continues with the first day without a
folder; earlier clicks are read from the days before it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.closed_loop.day import DayOfBlock, clicks_of
from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.users import user_block
from deep_interest.simulation.visits import ShopBlock, merge_events
from deep_interest.simulation.world import make_items, make_world

_SETTINGS = "settings.json"


class WorldLog:
    """The days of a world.

    Args:
        folder: folder of the world.
        config: parameters of the simulation.
    """

    def __init__(self, folder: Path, config: SimulationConfig) -> None:
        self.folder, self.config = folder, config

    @property
    def days(self) -> Path:
        """Folder of the days."""
        return self.folder / "days"

    def name(self, day: int) -> str:
        """Return the date of a day, from 0 on the first day with impressions."""
        return (self.config.first_impression_day + timedelta(days=day)).isoformat()

    def has(self, day: int) -> bool:
        """Return whether a day is complete."""
        return (self.days / self.name(day)).exists()

    def check_settings(self, settings: dict) -> None:
        """Record the parameters of the world, or compare them with those of the days that exist.

        Raises:
            InputError: the days were simulated with other parameters.
        """
        path = self.folder / _SETTINGS
        if not path.exists():
            with atomic_path(path) as temporary:
                temporary.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
            return
        found = json.loads(path.read_text(encoding="utf-8"))
        if changed := sorted(
            key for key in {*found, *settings} if found.get(key) != json.loads(json.dumps(settings.get(key)))
        ):
            raise InputError(
                f"{self.folder}: its days were simulated with other parameters ({', '.join(changed)}); delete the folder to simulate "
                "them again, or restore the parameters"
            )

    def write(self, day: int, blocks: Iterable[tuple[ShopBlock, DayOfBlock]], arms: Sequence[str]) -> None:
        """Write a day block by block, and complete its folder at the end.

        Args:
            day: the day.
            blocks: the blocks, with what happened.
            arms: names of the arms.
        """
        with atomic_path(self.days / self.name(day), directory=True) as temporary:
            writers = _Writers(temporary)
            items = make_items(self.config)
            writers.append("items", items if day == 0 else items.head(0))
            for block, found in blocks:
                names = np.array(arms, dtype=object)
                writers.append("behaviors", self._behaviors(day, block, found.clicks))
                writers.append("impressions", found.impressions.assign(arm=names[found.impressions["arm"]]))
                writers.append("exposures", found.exposures.assign(arm=names[found.exposures["arm"]]))
                users = user_block(self.config, block.number)
                writers.append("users", users if day == 0 else users.head(0))
            writers.close()

    def _behaviors(self, day: int, block: ShopBlock, clicks: Events) -> pd.DataFrame:
        begin = (self.config.behavior_days + day) * SECONDS_PER_DAY
        second, organic = block.organic.second, block.organic
        rows = (second < begin + SECONDS_PER_DAY) & (second >= (begin if day else 0))
        events = merge_events(Events(organic.user[rows], organic.item[rows], second[rows]), clicks)
        return pd.DataFrame(
            {
                "user": block.users.ids[events.user],
                "item": make_world(self.config).item_id[events.item],
                "time": self.config.origin + events.second,
            }
        )

    def clicks(self, until: int, block: ShopBlock) -> Events:
        """Read the clicks of a block on the days before ``until``, ordered by user and time."""
        first, last = int(block.users.ids[0]), int(block.users.ids[-1])
        columns = ["user", "item", "time", "slot", "label"]
        filters = [("label", ">", 0), ("user", ">=", first), ("user", "<=", last)]
        tables = [
            pd.read_parquet(path, columns=columns, filters=filters)
            for path in self._paths("impressions", range(until))
        ]
        nothing = pd.DataFrame(np.zeros((0, len(columns)), np.int64), columns=columns)
        return clicks_of(pd.concat([nothing, *tables], ignore_index=True), block, self.config)

    def exposures(self, days: range) -> pd.DataFrame:
        """Read the sums by user on some days, with the column ``day``: days since 1970-01-01."""
        first = self.config.origin // SECONDS_PER_DAY + self.config.behavior_days
        return pd.concat(
            [
                pd.read_parquet(path).assign(day=first + day)
                for day, path in zip(days, self._paths("exposures", days), strict=True)
            ],
            ignore_index=True,
        )

    def served(self, days: range) -> pd.DataFrame:
        """Count the impressions by ``arm`` and ``version`` on some days, in the column ``impressions``."""
        counts = [
            pd.read_parquet(path, columns=["arm", "version"])
            .value_counts()
            .rename("impressions")
            .reset_index()
            for path in self._paths("impressions", days)
        ]
        return pd.concat(counts).groupby(["arm", "version"], as_index=False)["impressions"].sum()

    def _paths(self, table: str, days: range) -> Iterator[Path]:
        return (self.days / self.name(day) / f"{table}.parquet" for day in days)


class _Writers:
    """Parquet files that grow block by block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, pq.ParquetWriter] = {}

    def append(self, table: str, rows: pd.DataFrame) -> None:
        found = pa.Table.from_pandas(rows, preserve_index=False)
        if table not in self._open:
            self._open[table] = pq.ParquetWriter(self._folder / f"{table}.parquet", found.schema)
        self._open[table].write_table(found)

    def close(self) -> None:
        for writer in self._open.values():
            writer.close()
