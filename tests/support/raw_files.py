"""Write small raw files in the publishers' layouts; each user prefers two categories, which a model can learn."""

import gzip
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

_DAY = 86_400  # seconds
_GENRES = ("Action", "Children's", "Comedy", "Drama", "Sci-Fi")


@dataclass(frozen=True)
class Action:
    """Action of a user on an item; user and item are indices from 0."""

    user: int
    item: int
    time: int
    stars: int


def draw_actions(*, users: int, items: int, categories: int, seed: int) -> list[Action]:
    """Draw 5 to 15 actions per user on different items, sorted by user and time; every third time repeats the previous.

    Item i has category ``i % categories``. Four of five actions are in the user's two preferred categories, with 4 or
    5 stars; the others have 1 to 3.
    """
    rng = np.random.default_rng(seed)
    actions = []
    for user in range(users):
        preferred = rng.choice(categories, size=2, replace=False)
        weights = np.where(
            np.isin(np.arange(items) % categories, preferred), 4 / (2 / categories), 1 / (1 - 2 / categories)
        )
        count = int(rng.integers(5, min(15, items) + 1))
        chosen = rng.choice(items, size=count, replace=False, p=weights / weights.sum())
        times = 1_300_000_000 // _DAY * _DAY + np.sort(rng.integers(0, 300, size=count)) * _DAY
        times[2::3] = times[1::3][: len(times[2::3])]
        for item, time in zip(chosen, times, strict=True):
            stars = rng.integers(4, 6) if item % categories in preferred else rng.integers(1, 4)
            actions.append(Action(user, int(item), int(time), int(stars)))
    return actions


def write_amazon(
    folder: Path,
    *,
    category_file: str = "Beauty",
    users: int = 60,
    items: int = 40,
    categories: int = 5,
    seed: int = 0,
    metadata: bool = True,
) -> tuple[Path, Path]:
    """Write ``reviews_<category_file>_5.json.gz`` and ``meta_<category_file>.json.gz``; return both paths.

    The metadata are Python literals, like the publisher's, and include one item without reviews.
    """
    folder.mkdir(parents=True, exist_ok=True)
    reviews, meta = folder / f"reviews_{category_file}_5.json.gz", folder / f"meta_{category_file}.json.gz"
    actions = draw_actions(users=users, items=items, categories=categories, seed=seed)
    write_lines(reviews, [json.dumps(_review(action)) for action in actions])
    if metadata:
        write_lines(
            meta, [repr(_metadata(item, item % categories, category_file)) for item in range(items + 1)]
        )
    return reviews, meta


def write_lines(path: Path, lines: list[str]) -> Path:
    """Write lines of text, compressed if ``path`` ends in ``.gz``."""
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def asin(item: int) -> str:
    """Return the id of an item in `write_amazon`."""
    return f"B{item:09d}"


def reviewer(user: int) -> str:
    """Return the id of a user in `write_amazon`."""
    return f"A{user:013d}"


def _review(action: Action) -> dict[str, object]:
    return {
        "reviewerID": reviewer(action.user),
        "asin": asin(action.item),
        "reviewerName": 'Ann "the reader"',
        "helpful": [0, 1],
        "reviewText": "It's good, isn't it? \\ 'categories' \u00e9",
        "overall": float(action.stars),
        "summary": "fine",
        "unixReviewTime": action.time,
        "reviewTime": "03 13, 2011",
    }


def _metadata(item: int, category: int, category_file: str) -> dict[str, object]:
    return {
        "asin": asin(item),
        "related": {"also_bought": [asin(0), asin(1)]},
        "title": f'Men\'s "thing" {item}',
        "price": 9.99,
        "description": "Among the best 'categories': a \u00e9 thing",
        "categories": [["Gifts", "Other"], [category_file, f"Men's kind {category}"]],
    }


def write_movielens(
    folder: Path,
    layout: Literal["100k", "1m", "csv"] = "100k",
    *,
    name: str | None = None,
    zipped: bool = True,
    users: int = 60,
    items: int = 40,
    seed: int = 0,
) -> Path:
    """Write a MovieLens dataset; return the path of the .zip file or of the folder.

    The list of movies includes one without ratings; in the CSV layout it has no genre.

    Args:
        folder: folder to write to.
        layout: layout of the files: ``100k`` (``u.data``), ``1m`` (``ratings.dat``) or ``csv`` (``ratings.csv``).
        name: name of the .zip file without suffix and of its folder; defaults to ``ml-100k``, ``ml-1m`` or ``ml-20m``.
        zipped: whether to write a .zip file, as the publisher does, or a folder.
        users, items, seed: arguments of `draw_actions`.
    """
    name = name or {"100k": "ml-100k", "1m": "ml-1m", "csv": "ml-20m"}[layout]
    actions = draw_actions(users=users, items=items, categories=len(_GENRES), seed=seed)
    contents = {"100k": _layout_100k, "1m": _layout_1m, "csv": _layout_csv}[layout](actions, items + 1)
    folder.mkdir(parents=True, exist_ok=True)
    if zipped:
        path = folder / f"{name}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in contents.items():
                archive.writestr(f"{name}/{member}", content)
        return path
    path = folder / name
    path.mkdir()
    for member, content in contents.items():
        (path / member).write_bytes(content)
    return path


def _genres(item: int) -> tuple[str, ...]:
    """Return one or two genres in alphabetical order, the item's category first."""
    return _GENRES[item % len(_GENRES) :][: 1 + item % 2]


def _title(item: int) -> str:
    return f"Misérables, Les: Part {item} (1995)"


def _layout_100k(actions: list[Action], movies: int) -> dict[str, bytes]:
    genres = ("unknown", *_GENRES)
    ratings = "".join(f"{a.user + 1}\t{a.item + 1}\t{a.stars}\t{a.time}\n" for a in actions)
    titles = ""
    for item in range(movies):
        flags = "|".join("1" if genre in _genres(item) else "0" for genre in genres)
        titles += f"{item + 1}|{_title(item)}|01-Jan-1995||http://example.org/{item}|{flags}\n"
    genre_lines = "".join(f"{genre}|{i}\n" for i, genre in enumerate(genres))
    return {
        "u.data": ratings.encode(),
        "u.item": titles.encode("latin-1"),
        "u.genre": f"{genre_lines}\n".encode(),
    }


def _layout_1m(actions: list[Action], movies: int) -> dict[str, bytes]:
    ratings = "".join(f"{a.user + 1}::{a.item + 1}::{a.stars}::{a.time}\n" for a in actions)
    titles = "".join(f"{i + 1}::{_title(i)}::{'|'.join(_genres(i))}\n" for i in range(movies))
    return {"ratings.dat": ratings.encode(), "movies.dat": titles.encode("latin-1")}


def _layout_csv(actions: list[Action], movies: int) -> dict[str, bytes]:
    ratings = "".join(f"{a.user + 1},{a.item + 1},{a.stars - 0.5},{a.time}\n" for a in actions)
    titles = ""
    for item in range(movies):
        genres = "(no genres listed)" if item == movies - 1 else "|".join(_genres(item))
        titles += f'{item + 1},"{_title(item)}",{genres}\n'
    return {
        "ratings.csv": f"userId,movieId,rating,timestamp\n{ratings}".encode(),
        "movies.csv": f"movieId,title,genres\n{titles}".encode(),
    }
