"""The genres of MovieLens' movies, out of ``u.item``, ``movies.dat`` or ``movies.csv``."""

import csv
import io
from collections.abc import Iterator

from deep_interest.errors import InputError
from deep_interest.sources.archive import Archive
from deep_interest.sources.movielens_ratings import Layout

_DIGITS = 18  # of a movie's id
NO_GENRES = "(no genres listed)"  # as the CSV layout writes it


def movie_categories(archive: Archive, layout: Layout, *, first_only: bool) -> dict[int, str]:
    """Return each listed movie's category: its first genre, or all of them joined by ``|``.

    Raises:
        InputError: if the list of movies is missing or damaged, or a line of it has no id or no genres.
    """
    content = archive.content(layout.movies)
    movies = {
        "movies.csv": lambda: _from_csv(content),
        "movies.dat": lambda: _from_dat(content),
        "u.item": lambda: _from_flags(content, _genre_names(archive)),
    }[layout.movies]()
    categories = {}
    for number, movie, genres in movies:
        if not movie.isdecimal() or len(movie) > _DIGITS or genres is None:
            raise InputError(
                f"{archive.path}, {layout.movies}, line {number}: found movie {movie[:60]!r} with genres {genres and genres[:60]!r}, "
                "expected an integer id, a title and genres. Mend the line, or fetch the file again."
            )
        categories[int(movie)] = (genres.split("|")[0] if first_only else genres) or NO_GENRES
    return categories


# Each yields (line number, movie, genres joined by '|'), with None for genres that are not there.


def _from_csv(content: bytes) -> Iterator[tuple[int, str, str | None]]:
    rows = csv.DictReader(io.StringIO(content.decode("utf-8-sig", "replace")))
    try:
        for row in rows:
            yield rows.line_num, row.get("movieId") or "", row.get("genres")
    except csv.Error:  # a field of more than 128 KiB
        yield rows.line_num + 1, "", None


def _from_dat(content: bytes) -> Iterator[tuple[int, str, str | None]]:
    for number, line in _lines(content):
        movie, _, rest = line.partition("::")
        _, separator, genres = rest.rpartition("::")
        yield number, movie, genres if separator else None


def _from_flags(content: bytes, names: list[str]) -> Iterator[tuple[int, str, str | None]]:
    for number, line in _lines(content):
        fields = line.split("|")
        flags = fields[-len(names) :]
        genres = [name for name, flag in zip(names, flags, strict=False) if flag == "1"]
        yield (
            number,
            fields[0],
            "|".join(genres) if set(flags) <= {"0", "1"} and len(flags) == len(names) else None,
        )


def _genre_names(archive: Archive) -> list[str]:
    return [line.partition("|")[0] for _, line in _lines(archive.content("u.genre"))]


def _lines(content: bytes) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(content.decode("latin-1").split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")
