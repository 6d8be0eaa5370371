"""Log in daily partitions: each user prefers one category, items are added each day, and one category is clicked most."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

DAY = 86_400
FIRST = date(2024, 3, 1)
KINDS = 5
FEATURES = {"item": ["item_id", "category", "brand"], "profile": ["plan"], "context": ["placement"]}


def day_name(index: int) -> str:
    """Return the name (YYYY-MM-DD) of day ``index``, from 0."""
    return (FIRST + timedelta(days=index)).isoformat()


def day_tables(
    index: int,
    *,
    users: int = 60,
    per_user: int = 10,
    items: int = 40,
    clicks: tuple[float, float] = (0.6, 0.08),
    seed: int = 0,
) -> dict[str, pd.DataFrame]:
    """Return the tables of a day; the click probability is ``clicks[0]`` in category 0, otherwise ``clicks[1]``."""
    rng = np.random.default_rng([seed, index])
    start = (FIRST - date(1970, 1, 1)).days * DAY + index * DAY
    count = items + 2 * index  # two new items per day
    ids = np.array([f"sku-{k}" for k in range(count)])
    user = np.repeat(np.arange(users), per_user)
    preferred = user % KINDS
    is_preferred = rng.random(len(user)) < 0.8
    behavior_item = np.where(
        is_preferred,
        rng.integers(0, count // KINDS, len(user)) * KINDS + preferred,
        rng.integers(0, count, len(user)),
    )
    impression_item = rng.integers(0, count, len(user))
    label = rng.random(len(user)) < np.where(impression_item % KINDS == 0, *clicks)
    times = start + rng.integers(0, DAY, (2, len(user)))
    new = np.arange(count) if index == 0 else np.arange(count - 2, count)
    names = np.array([f"u{k}" for k in range(users)])
    return {
        "behaviors": pd.DataFrame({"user": names[user], "item": ids[behavior_item], "time": times[0]}),
        "impressions": pd.DataFrame(
            {
                "user": names[user], "item": ids[impression_item], "time": times[1], "label": label.astype(np.int8),
                "placement": user % 3,
            }
        ),
        "items": pd.DataFrame(
            {"item": ids[new], "category": new % KINDS, "brand": [f"b{k % 7}" for k in new]}
        ),
        "users": pd.DataFrame({"user": names[1:], "plan": ["free", "paid"] * ((users - 1) // 2) + ["free"] * ((users - 1) % 2)}),
    }  # fmt: skip


def write_tables(folder: Path, tables: dict[str, pd.DataFrame]) -> Path:
    """Write the tables of a day to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
    return folder


def write_days(folder: Path, indices: range, **options) -> Path:
    """Write one folder of tables per day below ``folder``."""
    for index in indices:
        write_tables(folder / day_name(index), day_tables(index, **options))
    return folder
