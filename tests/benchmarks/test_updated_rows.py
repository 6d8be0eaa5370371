"""The time of a step that updates all rows of a table."""

from updated_rows import WAYS, milliseconds


def test_every_way_has_a_time():
    found = milliseconds(100, steps=1)
    assert list(found) == list(WAYS)
    assert all(value > 0 for value in found.values())
