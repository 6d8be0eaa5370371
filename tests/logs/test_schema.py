"""The groups, tables and multi-hot fields of a feature schema."""

import pytest

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field

SCHEMA = FeatureSchema(
    item=(Field(name="item_id", size=5), Field(name="tags", size=4, pooling="sum")), behavior=(Field(name="item_id", size=5),),
    profile=(Field(name="age", size=3),), context=(Field(name="place", size=2, pooling="mean"),),
)  # fmt: skip


def test_a_schema_knows_its_groups_tables_and_multi_hot_fields():
    assert SCHEMA.tables == {"item_id": 5, "tags": 4, "age": 3, "place": 2}
    assert SCHEMA.multi_hot == {"tags", "place"}
    assert SCHEMA.groups_of("item_id") == ("item", "behavior")
    assert (SCHEMA.groups_of("place"), SCHEMA.groups_of("x")) == (("context",), ())
    assert [field.name for field in SCHEMA.fields("item")] == ["item_id", "tags"]
    assert SCHEMA.model_dump()["profile"] == ({"name": "age", "size": 3},)


def test_a_schema_may_lose_fields_but_not_all_of_the_candidate_or_a_behaviour():
    left = SCHEMA.without(["tags", "place"])
    assert left == FeatureSchema(item=SCHEMA.item[:1], behavior=SCHEMA.behavior, profile=SCHEMA.profile)
    assert SCHEMA.without([]) == SCHEMA
    with pytest.raises(InputError, match=r"without: x, y .*item_id, tags, age, place"):
        SCHEMA.without(["y", "x", "age"])
    with pytest.raises(InputError, match="without: item_id leaves no"):
        SCHEMA.without(["item_id"])
    with pytest.raises(InputError, match="without: item_id, tags leaves no"):
        SCHEMA.without(["item_id", "tags"])
