"""A dataset with the names that people know it by: what pictures and explanations show."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch

from deep_interest.errors import InputError
from deep_interest.logs.encoding import ITEM_ID
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.runs import Data

CATEGORY = "category"


@dataclass(frozen=True)
class DatasetView:
    """Samples, the log, and the ids that the codes stand for.

    Attributes:
        data: log, feature codes, samples.
        user_ids, item_ids: column ``id``; the code of a row is its number, from 1.
        items: the canonical item table.
        max_len: behaviours in a history; the oldest are cut.
    """

    data: Data
    user_ids: pd.DataFrame
    item_ids: pd.DataFrame
    items: pd.DataFrame
    max_len: int = 100

    @cached_property
    def test(self) -> SampleSet:
        """The test samples, on the CPU."""
        store = FeatureStore.build(self.data.log, self.data.features, torch.device("cpu"))
        return SampleSet.build(store, self.data.samples, "test", max_len=self.max_len)

    @cached_property
    def category(self) -> np.ndarray:
        """``(I + 1,)`` the category of each item code, as text; empty for the unknown item."""
        if CATEGORY not in self.items:
            return np.full(len(self.item_ids) + 1, "", object)
        known = self.items.set_index("item")[CATEGORY].reindex(self.item_ids["id"])
        return np.concatenate([[""], [_category(value) for value in known]]).astype(object)

    @cached_property
    def _item_of_id(self) -> np.ndarray:
        """``(G,)`` the item code of each item-id code; 0 where several items share it."""
        item_ids = self.data.features.items[ITEM_ID]
        item = np.zeros(int(item_ids.max()) + 1, np.int64)
        item[item_ids[1:]] = np.arange(1, len(item_ids))
        item[0] = 0
        return item

    def items_of(self, item_ids: np.ndarray) -> np.ndarray:
        """The item codes of item-id codes; 0 for the unknown."""
        return self._item_of_id[item_ids]

    def item_name(self, item: int) -> str:
        """An item by id and category."""
        if not item:
            return "unknown item"
        category = self.category[item]
        return f"{self.item_ids['id'].iat[item - 1]}" + (f" · {category}" if category else "")

    def item_code(self, item: str) -> int:
        """The code of an item id as typed.

        Raises:
            InputError: no such item.
        """
        return _code_of(self.item_ids, item, "candidate", "items")

    def user_code(self, user: str) -> int:
        """The code of a user id as typed.

        Raises:
            InputError: no such user.
        """
        return _code_of(self.user_ids, user, "user", "users")

    def typical_user(self) -> np.ndarray:
        """Test rows of a user to show: one with several candidates after 6 to 14 behaviours of many categories, and with clicks and others."""
        samples = self.test
        table = pd.DataFrame(
            {
                "user": samples.user.numpy(),
                "end": samples.history_end.numpy(),
                "item": samples.item.numpy(),
                "label": samples.labels.numpy(),
            }
        )
        table["both"] = table.groupby("user")["label"].transform("nunique")
        table["several"] = table.groupby(["user", "end"])["item"].transform("nunique").clip(upper=3)
        table["near"] = (table["end"] - 10).abs()
        table["kinds"] = [
            self._kinds(row.user, row.end) if row.near <= 4 and row.both == 2 and row.several > 1 else -1
            for row in table.itertuples()
        ]
        best = table.sort_values(
            ["both", "kinds", "several", "near", "user"], ascending=[False, False, False, True, True]
        ).iloc[0]
        rows = np.flatnonzero((table["user"] == best["user"]) & (table["end"] == best["end"]))
        return rows[:6]

    def _kinds(self, user: int, end: int) -> int:
        fields = self.data.log.history(user, end, max_len=self.max_len)
        return len(np.unique(fields.get(CATEGORY, fields[ITEM_ID])))


def _category(value: object) -> str:
    text = str(value)
    return text if not text.isdigit() else f"category {text}"


def _code_of(ids: pd.DataFrame, wanted: str, what: str, plural: str) -> int:
    found = np.flatnonzero(ids["id"].astype(str).to_numpy() == wanted)
    if not len(found):
        some = ", ".join(ids["id"].astype(str).head(3))
        raise InputError(
            f"{what}: {wanted!r} is not one of the {len(ids):,} {plural} ({some}, …); give an id of the source"
        )
    return int(found[0]) + 1
