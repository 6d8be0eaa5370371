"""Samples as RecBole's atomic files."""

from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path

import numpy as np


def write_atomic_files(
    folder: Path,
    train: Mapping[str, np.ndarray],
    others: Iterable[Mapping[str, np.ndarray]],
    *,
    negatives: bool,
) -> None:
    """Write the library's atomic files, whose items are those of the training samples and of ``others``.

    The first sample has a full window, which the library's mask takes for granted. All samples are of one user: models are
    compared on items and categories alone, and the library's DIEN has an embedding of the user.
    """
    window = train["history_item"].shape[1]
    history, length = train["history_item"].copy(), train["length"].copy()
    drawn = train["negative_item"].copy()
    history[0], drawn[0] = (np.where(row == 0, row[0], row) for row in (history[0], drawn[0]))
    length[0] = window
    names = ["user_id:token", "item_id:token", "label:float", "item_id_list:token_seq"]
    names += ["neg_item_id_list:token_seq"] if negatives else []
    for part, rows in (("train", len(length)), ("valid", 64), ("test", 64)):
        with (folder / f"jagged.{part}.inter").open("w") as file:
            file.write("\t".join(names) + "\n")
            for i in range(rows):
                lists = [history[i], drawn[i]] if negatives else [history[i]]
                sequences = [" ".join(map(str, ids[: length[i]].tolist())) for ids in lists]
                first = ["1", str(train["item"][i]), str(int(train["label"][i]))]
                file.write("\t".join(first + sequences) + "\n")
    category = {}
    for arrays, prefix in product((train, *others), ("", "history_", "negative_")):
        items, categories = (arrays[f"{prefix}{name}"].ravel().tolist() for name in ("item", "category"))
        category |= dict(zip(items, categories, strict=True))
    rows = [f"{item}\tc{code}" for item, code in sorted(category.items()) if item]
    (folder / "jagged.item").write_text("item_id:token\tcategory:token\n" + "\n".join(rows) + "\n")
