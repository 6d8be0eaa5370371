"""Tables that do not fit into memory: the same rows as the reader in memory, whatever the partitions."""

import numpy as np
import pandas as pd
import pytest
from support.tables import DECLARATION, FEATURES, write

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.sources.tables import large
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.large import Workspace, read_large_tables
from deep_interest.sources.tables.reader import read_tables

SOURCE = Source.model_validate(DECLARATION)
KEYS = ["user", "item", "time"]


def write_shop(folder, rows=400):
    """Visits and impressions of 30 users, of which some are repeated."""
    rng = np.random.default_rng(0)
    visits = pd.DataFrame(
        {"user": rng.integers(1, 31, rows), "item": rng.integers(10, 12, rows), "time": rng.integers(0, 90, rows) * 100}
    )  # fmt: skip
    shown = visits.sample(frac=1, random_state=1)
    shown = shown.assign(
        label=rng.integers(0, 2, rows), place=rng.choice(["top", "side"], rows), time=shown["time"] + 5
    )
    write(folder, visits=visits.to_csv(index=False), impressions=shown.to_csv(index=False))
    return visits, shown


def rows_of(table, keys):
    frame = pd.read_parquet(table) if not isinstance(table, pd.DataFrame) else table
    return frame.sort_values(list(keys), ignore_index=True)


@pytest.mark.slow
@pytest.mark.parametrize("at_a_time", [70, 10_000_000])
@pytest.mark.parametrize(("rows_per_partition", "max_users"), [(50, None), (10_000, 12)])
def test_partitions_have_the_rows_that_are_read_in_memory(
    tmp_path, monkeypatch, at_a_time, rows_per_partition, max_users
):
    visits, shown = write_shop(tmp_path)
    monkeypatch.setattr(large, "_ROWS_AT_A_TIME", at_a_time)
    workspace = tmp_path / "work"
    workspace.mkdir()
    found = read_large_tables(
        tmp_path,
        SOURCE,
        FEATURES,
        Workspace(workspace, "500MB", rows_per_partition),
        max_users=max_users,
        seed=3,
    )
    expected = canonical(read_tables(tmp_path, SOURCE, FEATURES), seed=3, max_users=max_users)
    assert len(list(found.behaviors.glob("*.parquet"))) == (1 if rows_per_partition == 10_000 else 8)
    if max_users is None:
        assert len(rows_of(found.behaviors, KEYS)) == len(visits.drop_duplicates())
        kept = shown.drop_duplicates(["user", "item", "time", "label"])  # the first one, with its place
        pd.testing.assert_frame_equal(
            rows_of(found.impressions, [*KEYS, "label"])[[*KEYS, "label", "place"]],
            rows_of(kept, [*KEYS, "label"])[[*KEYS, "label", "place"]],
            check_dtype=False,
        )
    pd.testing.assert_frame_equal(
        rows_of(found.behaviors, KEYS), rows_of(expected.behaviors, KEYS), check_like=True, check_dtype=False
    )
    pd.testing.assert_frame_equal(
        rows_of(found.impressions, [*KEYS, "label"]), rows_of(expected.impressions, [*KEYS, "label"]),
        check_like=True, check_dtype=False,
    )  # fmt: skip
    assert found.left_out == expected.left_out
    left = [path.name for path in workspace.iterdir()]
    assert sorted(left) == sorted([found.behaviors.name, found.impressions.name])  # the results alone


def test_a_memory_limit_that_is_not_a_size(tmp_path):
    write_shop(tmp_path)
    with pytest.raises(InputError, match=r"ingest.memory_limit: found 'much'; expected a size such as 4GB"):
        read_large_tables(tmp_path, SOURCE, FEATURES, Workspace(tmp_path, "much", 50))
