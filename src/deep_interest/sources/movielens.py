"""Read MovieLens in its three layouts: 100K (``u.data``), 1M (``ratings.dat``), and the CSV of 20M and later.

Source: F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and Context", ACM TiiS 5(4), 2015.
"""

import logging
from pathlib import Path
from typing import Literal

import pandas as pd
import pyarrow.compute as pc

from deep_interest.logs.tables import CanonicalTables
from deep_interest.sources.archive import Archive
from deep_interest.sources.movielens_genres import NO_GENRES, movie_categories
from deep_interest.sources.movielens_ratings import find_layout, read_ratings

_log = logging.getLogger(__name__)


def read_movielens(
    path: Path, *, category: Literal["first_genre", "all_genres"] = "first_genre"
) -> CanonicalTables:
    """Read MovieLens ratings as behaviours and genres as categories.

    Args:
        path: publisher's .zip file, or the folder it unpacks to; the layout is detected from the file names.
        category: ``first_genre`` for a movie's first genre, ``all_genres`` for all its genres joined by ``|``.

    Returns:
        Canonical tables. ``behaviors``: ``user``, ``item`` (int32), ``time`` (int64, seconds), ``rating`` (float32, 0.5
        to 5), in the order of the file. ``items``: the rated movies, sorted by id; a movie without genres has the
        category ``(no genres listed)``.

    Raises:
        InputError: a file is missing or damaged, the layout is unknown, or a line is not a rating or out of range.
    """
    with Archive(Path(path)) as archive:
        layout = find_layout(archive)
        ratings = read_ratings(archive, layout)
        categories = movie_categories(archive, layout, first_only=category == "first_genre")
    items = sorted(pc.unique(ratings["item"]).to_pylist())
    unlisted = sum(item not in categories for item in items)
    if unlisted:
        _log.warning("%s: %d of %d rated movies are not in %s.", path, unlisted, len(items), layout.movies)
    return CanonicalTables(
        behaviors=ratings.to_pandas(split_blocks=True, self_destruct=True),
        items=pd.DataFrame(
            {
                "item": pd.array(items, dtype="int32").to_numpy(),
                "category": [categories.get(item, NO_GENRES) for item in items],
            }
        ),
    )
