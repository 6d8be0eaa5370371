"""A shop's log as daily partitions: users who look at one category each, items that are new each day, one category that all click."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

DAY = 86_400
FIRST = date(2024, 3, 1)
KINDS = 5
FEATURES = {"item": ["item_id", "category", "brand"], "profile": ["plan"], "context": ["placement"]}


def day_name(number: int) -> str:
    """The name of day ``number``, from 0."""
    return (FIRST + timedelta(days=number)).isoformat()


def day_tables(
    number: int,
    *,
    users: int = 60,
    per_user: int = 10,
    items: int = 40,
    clicks: tuple[float, float] = (0.6, 0.08),
    seed: int = 0,
) -> dict[str, pd.DataFrame]:
    """The tables of one day; a click's probability is ``clicks[0]`` in the category 0, else ``clicks[1]``."""
    rng = np.random.default_rng([seed, number])
    begin = (FIRST - date(1970, 1, 1)).days * DAY + number * DAY
    known = items + 2 * number  # two new items a day
    ids = np.array([f"sku-{k}" for k in range(known)])
    user = np.repeat(np.arange(users), per_user)
    liked = user % KINDS
    own = rng.random(len(user)) < 0.8
    done = np.where(
        own, rng.integers(0, known // KINDS, len(user)) * KINDS + liked, rng.integers(0, known, len(user))
    )
    shown = rng.integers(0, known, len(user))
    label = rng.random(len(user)) < np.where(shown % KINDS == 0, *clicks)
    stamps = begin + rng.integers(0, DAY, (2, len(user)))
    new = np.arange(known) if number == 0 else np.arange(known - 2, known)
    names = np.array([f"u{k}" for k in range(users)])
    return {
        "behaviors": pd.DataFrame({"user": names[user], "item": ids[done], "time": stamps[0]}),
        "impressions": pd.DataFrame(
            {
                "user": names[user], "item": ids[shown], "time": stamps[1], "label": label.astype(np.int8),
                "placement": user % 3,
            }
        ),
        "items": pd.DataFrame(
            {"item": ids[new], "category": new % KINDS, "brand": [f"b{k % 7}" for k in new]}
        ),
        "users": pd.DataFrame({"user": names[1:], "plan": ["free", "paid"] * ((users - 1) // 2) + ["free"] * ((users - 1) % 2)}),
    }  # fmt: skip


def write_tables(folder: Path, tables: dict[str, pd.DataFrame]) -> Path:
    """Write a day's tables into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
    return folder


def write_days(folder: Path, numbers: range, **options) -> Path:
    """Write some days below ``folder``."""
    for number in numbers:
        write_tables(folder / day_name(number), day_tables(number, **options))
    return folder
