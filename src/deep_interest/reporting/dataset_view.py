"""A dataset with the ids and names of its users and items, for charts and explanations."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.runs import Data

CATEGORY = "category"


@dataclass(frozen=True)
class DatasetView:
    """Samples, behaviour log, and the ids that belong to the codes.

    Attributes:
        data: log, feature codes and samples.
        user_ids: column ``id``; row k holds the id of user code k + 1.
        item_ids: column ``id``; row k holds the id of item code k + 1.
        items: the canonical table ``items``.
        max_len: maximum number of behaviours in a history; the newest ones are kept.
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
        """Name of the category by item code, ``(I + 1,)``; empty for the unknown item and without a category column."""
        if CATEGORY not in self.items:
            return np.full(len(self.item_ids) + 1, "", object)
        known = self.items.set_index("item")[CATEGORY].reindex(self.item_ids["id"])
        return np.concatenate([[""], [_category_name(value) for value in known]]).astype(object)

    @cached_property
    def _item_by_feature_code(self) -> np.ndarray:
        """Item code by code of the item id feature, ``(G,)``; the last one where several items share a code."""
        feature_codes = self.data.features.items[ITEM_ID]
        items = np.zeros(int(feature_codes.max()) + 1, np.int64)
        items[feature_codes[1:]] = np.arange(1, len(feature_codes))
        items[0] = 0
        return items

    def items_of(self, feature_codes: np.ndarray) -> np.ndarray:
        """Return the item codes for codes of the item id feature; 0 for unknown items."""
        return self._item_by_feature_code[feature_codes]

    def item_name(self, item: int) -> str:
        """Return id and category of an item code, such as "1042 · category 7"."""
        if not item:
            return "unknown item"
        category = self.category[item]
        return f"{self.item_ids['id'].iat[item - 1]}" + (f" · {category}" if category else "")

    def item_code(self, item: str) -> int:
        """Return the code of an item id.

        Raises:
            InputError: there is no such item.
        """
        return _code_of(self.item_ids, item, "candidate", "items")

    def user_code(self, user: str) -> int:
        """Return the code of a user id.

        Raises:
            InputError: there is no such user.
        """
        return _code_of(self.user_ids, user, "user", "users")

    def typical_user(self) -> np.ndarray:
        """Return rows of at most six test samples, at one point in time, of a user that is good to show.

        Preferred are users with positive and negative samples, several candidates, and 6 to 14 behaviours in many categories.
        """
        samples = self.test
        table = pd.DataFrame(
            {
                "user": samples.user.numpy(),
                "segment": samples.segment.numpy(),
                "history_end": samples.history_end.numpy(),
                "item": samples.item.numpy(),
                "label": samples.labels.numpy(),
            }
        )
        table["classes"] = table.groupby("user")["label"].transform("nunique")
        by_request = table.groupby(["user", "segment", "history_end"])
        table["candidates"] = by_request["item"].transform("nunique").clip(upper=3)
        table["distance"] = (table["history_end"] - 10).abs()
        table["categories"] = [
            self._distinct_categories(row.segment, row.history_end)
            if row.distance <= 4 and row.classes == 2 and row.candidates > 1
            else -1
            for row in table.itertuples()
        ]
        best = table.sort_values(
            ["classes", "categories", "candidates", "distance", "user"], ascending=[False, False, False, True, True]
        ).iloc[0]  # fmt: skip
        rows = np.flatnonzero(
            (table[["user", "segment", "history_end"]] == best[["user", "segment", "history_end"]]).all(
                axis=1
            )
        )
        return rows[:6]

    def _distinct_categories(self, segment: int, history_end: int) -> int:
        fields = self.data.log.history(segment, history_end, max_len=self.max_len)
        return len(np.unique(fields.get(CATEGORY, fields[ITEM_ID])))


def _category_name(value: object) -> str:
    name = str(value)
    return f"category {name}" if name.isdigit() else name


def _code_of(ids: pd.DataFrame, wanted: str, what: str, plural: str) -> int:
    index = np.flatnonzero(ids["id"].astype(str).to_numpy() == wanted)
    if not len(index):
        examples = ", ".join(ids["id"].astype(str).head(3))
        raise InputError(
            f"{what}: {wanted!r} is not one of the {len(ids):,} {plural} ({examples}, …); use an id of the source"
        )
    return int(index[0]) + 1
