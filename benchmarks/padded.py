"""Samples as the padded arrays that the public libraries take."""

import numpy as np


def padded(
    *, item: np.ndarray, user: np.ndarray, label: np.ndarray, end: np.ndarray, offsets: np.ndarray, item_ids: np.ndarray,
    category: np.ndarray, max_len: int, rng: np.random.Generator,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Ids, histories padded with 0 after their end, and for each behaviour one negative sampled from all other items.

    Args:
        item, user, label, end: ``(n,)`` of each sample; ``end`` is how many of the user's behaviours lie before it.
        offsets: ``(U + 1,)`` runs of the users' behaviours.
        item_ids: ``(N,)`` items of the behaviours.
        category: ``(I + 1,)`` category of each item; item code 0 is padding.
        max_len: the window.
        rng: draws the items.

    Returns:
        ``user, item, category, label, length (n,)`` and ``history_item, history_category, negative_item, negative_category
        (n, max_len)``.
    """
    length, steps = np.minimum(end, max_len), np.arange(max_len)
    real = steps < length[:, None]
    position = np.where(real, (offsets[user] + end - length)[:, None] + steps, 0)
    history = np.where(real, item_ids[position], 0).astype(np.int32)
    shift = rng.integers(1, len(category) - 1, history.shape)  # 1 … I-1 further: never the clicked one
    negative = np.where(real, (history - 1 + shift) % (len(category) - 1) + 1, 0).astype(np.int32)
    return {
        "user": user.astype(np.int32), "item": item.astype(np.int32), "category": category[item].astype(np.int32),
        "label": label.astype(np.float32), "length": length.astype(np.int32),
        "history_item": history, "history_category": category[history].astype(np.int32),
        "negative_item": negative, "negative_category": category[negative].astype(np.int32),
    }  # fmt: skip
