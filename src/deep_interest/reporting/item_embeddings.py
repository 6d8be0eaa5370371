"""Items and their embeddings, as the plots and measures of embeddings use them."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.reporting.dataset_view import DatasetView

MAX_CATEGORIES, MAX_ITEMS = 8, 600


def items_of_largest_categories(view: DatasetView) -> tuple[np.ndarray, np.ndarray]:
    """Return item codes and categories, ``(n,)`` each, of the items with most behaviours in the largest categories."""
    counts = np.bincount(view.items_of(view.data.log.fields[ITEM_ID]), minlength=len(view.category))
    counts[0] = 0  # the unknown item
    by_category = (
        pd.Series(counts[1:]).groupby(view.category[1:]).sum().sort_values(ascending=False, kind="stable")
    )
    codes = np.flatnonzero(np.isin(view.category, by_category.index[:MAX_CATEGORIES]) & (counts > 0))
    chosen = codes[np.argsort(-counts[codes], kind="stable")][:MAX_ITEMS]
    return chosen, view.category[chosen]


def item_codes(model: Any, view: DatasetView, items: np.ndarray) -> dict[str, Tensor]:
    """Return the codes of the model's item fields, ``{field: (n,)}``, for item codes ``(n,)``."""
    return {
        field.name: torch.from_numpy(view.data.features.items[field.name][items])
        for field in model.schema.item
    }


def item_vectors(model: Any, view: DatasetView, items: np.ndarray) -> np.ndarray:
    """Return the concatenated embeddings of the item fields, ``(n, D)``; the first field is the item id."""
    codes = item_codes(model, view, items)
    with torch.inference_mode():
        return model.embeddings(codes, model.schema.item, view.test.store.value_sets).numpy()
