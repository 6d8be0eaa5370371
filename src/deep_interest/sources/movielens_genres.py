"""Read the genres of movies from ``u.item``, ``movies.dat`` or ``movies.csv``."""

import csv
import io
from collections.abc import Iterator

from deep_interest.errors import InputError
from deep_interest.sources.archive import Archive
from deep_interest.sources.movielens_ratings import Layout

_MAX_ID_DIGITS = 18
NO_GENRES = "(no genres listed)"  # the CSV layout's own string


def movie_categories(archive: Archive, layout: Layout, *, first_only: bool) -> dict[int, str]:
    """Return ``{movie id: category}`` of all listed movies.

    Args:
        archive: MovieLens files.
        layout: layout of the files.
        first_only: True to use a movie's first genre, False to join all genres by ``|``.

    Raises:
        InputError: the list of movies is missing or damaged, or one of its lines has no id or genres.
    """
    content = archive.read(layout.movies)
    movies = {
        "movies.csv": lambda: _from_csv(content),
        "movies.dat": lambda: _from_dat(content),
        "u.item": lambda: _from_flags(content, _genre_names(archive)),
    }[layout.movies]()
    categories = {}
    for line_number, movie, genres in movies:
        if not movie.isdecimal() or len(movie) > _MAX_ID_DIGITS or genres is None:
            raise InputError(
                f"{archive.path}, {layout.movies}, line {line_number}: found movie {movie[:60]!r} with genres "
                f"{genres and genres[:60]!r}, expected an integer id, a title and genres. Fix the line, or download "
                "the file again."
            )
        categories[int(movie)] = (genres.split("|")[0] if first_only else genres) or NO_GENRES
    return categories


# Each function yields (line number, movie id, genres joined by '|'); genres are None if they are missing.


def _from_csv(content: bytes) -> Iterator[tuple[int, str, str | None]]:
    rows = csv.DictReader(io.StringIO(content.decode("utf-8-sig", "replace")))
    try:
        for row in rows:
            yield rows.line_num, row.get("movieId") or "", row.get("genres")
    except csv.Error:  # a field of more than 128 KiB
        yield rows.line_num + 1, "", None


def _from_dat(content: bytes) -> Iterator[tuple[int, str, str | None]]:
    for line_number, line in _lines(content):
        movie, _, rest = line.partition("::")
        _, separator, genres = rest.rpartition("::")
        yield line_number, movie, genres if separator else None


def _from_flags(content: bytes, names: list[str]) -> Iterator[tuple[int, str, str | None]]:
    for line_number, line in _lines(content):
        fields = line.split("|")
        flags = fields[-len(names) :]
        genres = [name for name, flag in zip(names, flags, strict=False) if flag == "1"]
        yield (
            line_number,
            fields[0],
            "|".join(genres) if set(flags) <= {"0", "1"} and len(flags) == len(names) else None,
        )


def _genre_names(archive: Archive) -> list[str]:
    return [line.partition("|")[0] for _, line in _lines(archive.read("u.genre"))]


def _lines(content: bytes) -> Iterator[tuple[int, str]]:
    for line_number, line in enumerate(content.decode("latin-1").split("\n"), start=1):
        if line.strip():
            yield line_number, line.rstrip("\r")
