import numpy as np
import pytest
from support.training import CATEGORIES, ITEMS, sample_set, small_data

from deep_interest.training.occurrences import samples_with_each_id


def by_hand(samples, field, groups, size):
    """Materialise each sample's ids and count every id once."""
    counts = np.zeros(size, np.int64)
    store = samples.store
    for row in range(len(samples)):
        user, end = int(samples.user[row]), int(samples.history_end[row])
        start, ids = int(store.offsets[user]), set()
        if "item" in groups:
            ids.add(int(store.items[field][samples.item[row]]))
        if "behavior" in groups:
            ids |= set(store.history[field][start + max(0, end - samples.max_len) : start + end].tolist())
        for code in ids:
            counts[code] += 1
    return counts


@pytest.mark.parametrize("max_len", [1, 3, 100])
@pytest.mark.parametrize("groups", [("item", "behavior"), ("item",), ("behavior",)])
@pytest.mark.parametrize(("field", "size"), [("goods", ITEMS + 1), ("category", CATEGORIES + 1)])
def test_a_sample_counts_once_for_every_id_it_holds(field, size, groups, max_len):
    samples = sample_set(small_data(), max_len=max_len)
    np.testing.assert_array_equal(
        samples_with_each_id(samples, field, groups, size), by_hand(samples, field, groups, size)
    )
