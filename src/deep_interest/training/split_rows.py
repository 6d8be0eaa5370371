"""The rows of a split in a table of samples: a slice if they are neighbours, so that mapped columns are not copied."""

import numpy as np
import pandas as pd

Rows = slice | np.ndarray


def rows_of_split(samples: pd.DataFrame, split: str) -> Rows:
    """Return the rows of a split, in order."""
    mask = (samples["split"] == split).to_numpy()
    count, first = int(np.count_nonzero(mask)), int(mask.argmax()) if len(mask) else 0
    if mask[first : first + count].all():
        return slice(first, first + count)
    return np.flatnonzero(mask)


def chosen(samples: pd.DataFrame, column: str, rows: Rows) -> np.ndarray:
    """Return some rows of a column; a slice shares the memory of the column.

    pandas marks the memory as read-only, which torch warns of; training does not write to it.
    """
    values = samples[column].to_numpy()[rows]
    if isinstance(rows, slice) and not values.flags.writeable:
        values = values.view()
        try:
            values.flags.writeable = True
        except ValueError:  # the memory itself is read-only
            return values.copy()
    return values
