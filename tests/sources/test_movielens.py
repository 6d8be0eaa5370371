"""MovieLens in its three layouts, zipped and unpacked, and errors for invalid files."""

import logging
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.raw_files import draw_actions, write_movielens

from deep_interest.errors import InputError
from deep_interest.logs.encoding import FeatureColumns, code_column
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.sources.movielens import read_movielens

LAYOUTS = ("100k", "1m", "csv")
RATINGS = {"100k": "u.data", "1m": "ratings.dat", "csv": "ratings.csv"}
SEPARATORS = {"100k": "\t", "1m": "::", "csv": ","}
GENRES = (
    "Action",
    "Children's",
    "Comedy",
    "Drama",
    "Sci-Fi",
)  # movie m has genre (m - 1) % 5; every second movie has one more


def edit_lines(folder: Path, name: str, change: Callable[[list[str]], list[str]]) -> None:
    """Apply ``change`` to the lines of a file."""
    lines = (folder / name).read_text("latin-1").split("\n")
    (folder / name).write_text("\n".join(change(lines)), "latin-1")


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_rating_is_one_behaviour_in_file_order(tmp_path: Path, layout: str, zipped: bool) -> None:
    behaviors = read_movielens(write_movielens(tmp_path, layout, zipped=zipped)).behaviors
    actions = draw_actions(users=60, items=40, categories=5, seed=0)
    assert behaviors["user"].tolist() == [action.user + 1 for action in actions]
    assert behaviors["item"].tolist() == [action.item + 1 for action in actions]
    assert behaviors["time"].tolist() == [action.time for action in actions]
    half = 0.5 if layout == "csv" else 0
    assert behaviors["rating"].tolist() == [action.stars - half for action in actions]
    dtypes = {name: str(dtype) for name, dtype in behaviors.dtypes.items()}
    assert dtypes == {"user": "int32", "item": "int32", "time": "int64", "rating": "float32"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_items_are_the_rated_movies_with_their_first_genre(tmp_path: Path, layout: str) -> None:
    items = read_movielens(write_movielens(tmp_path, layout)).items
    rated = sorted({action.item + 1 for action in draw_actions(users=60, items=40, categories=5, seed=0)})
    assert items["item"].tolist() == rated
    assert str(items["item"].dtype) == "int32"
    assert items["category"].tolist() == [GENRES[(movie - 1) % 5] for movie in rated]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_genres_may_form_the_category(tmp_path: Path, layout: str) -> None:
    items = read_movielens(write_movielens(tmp_path, layout), category="all_genres").items
    category_of = dict(zip(items["item"], items["category"], strict=True))
    assert category_of[1] == "Action"
    assert category_of[2] == "Children's|Comedy"
    assert category_of[4] == "Drama|Sci-Fi"


def test_a_multi_hot_category_has_one_value_per_genre(tmp_path: Path) -> None:
    items = read_movielens(write_movielens(tmp_path, "csv"), category="all_genres").items
    vocabularies, features = FieldVocabularies(), FeatureColumns(multi_hot={"category": "|"})
    column = code_column(vocabularies, "category", items["category"], features)
    genres = vocabularies.fields["category"].vocabulary.values
    assert sorted(genres) == sorted(GENRES)
    value_set = column.codes[items["item"].tolist().index(4)]
    start, end = column.value_sets.offsets[value_set : value_set + 2]
    assert {genres[code - 1] for code in column.value_sets.values[start:end]} == {"Drama", "Sci-Fi"}


@pytest.mark.parametrize(
    ("layout", "movies", "line"),
    [
        ("100k", "u.item", "1|Nothing (1995)|01-Jan-1995|||0|0|0|0|0|0"),
        ("1m", "movies.dat", "1::Nothing:: a Tale (1995)::"),
        ("csv", "movies.csv", '1,"Nothing, ""A Tale"" (1995)",(no genres listed)'),
    ],
)
def test_a_movie_without_genres_has_the_category_no_genres_listed(
    tmp_path: Path, layout: str, movies: str, line: str
) -> None:
    folder = write_movielens(tmp_path, layout, zipped=False)
    header = 1 if layout == "csv" else 0
    edit_lines(folder, movies, lambda lines: [*lines[:header], line, *lines[header + 1 :]])
    for category in ("first_genre", "all_genres"):
        items = read_movielens(folder, category=category).items
        assert items["category"][items["item"] == 1].tolist() == ["(no genres listed)"]


def test_a_rated_movie_that_is_not_listed_is_kept_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_movielens(tmp_path, "csv", zipped=False)
    edit_lines(folder, "movies.csv", lambda lines: [lines[0], *lines[2:]])
    with caplog.at_level(logging.WARNING):
        items = read_movielens(folder).items
    assert items["category"][items["item"] == 1].tolist() == ["(no genres listed)"]
    assert "1 of 40 rated movies are not in movies.csv" in caplog.text


def test_csv_columns_are_matched_by_name(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text(
        "timestamp,rating,x,movieId,userId\r\n9,0.5,q,7,3\r\n\r\n8,5,q,7,4\r\n"
    )
    (tmp_path / "movies.csv").write_text("movieId,title,genres\n7,T,Drama\n")
    tables = read_movielens(tmp_path)
    assert tables.behaviors.to_dict("list") == {
        "user": [3, 4],
        "item": [7, 7],
        "time": [9, 8],
        "rating": [0.5, 5.0],
    }


INVALID_VALUES = [
    (0, "", "column userId: found ''"),
    (0, "4000000000", "column userId: found '4000000000', expected int32"),
    (1, "seven", "column movieId: found 'seven'"),
    (2, "5.5", r"column rating: found '5.5', expected float in 0.5..5"),
    (2, "0", "column rating: found '0'"),
    (2, "nan", "column rating: found 'nan'"),
    (3, "", "column timestamp: found ''"),
    (3, "1e9", "column timestamp: found '1e9'"),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("field", "value", "message"), INVALID_VALUES)
def test_an_invalid_value_is_an_error_with_its_line_and_column(
    tmp_path: Path, layout: str, field: int, value: str, message: str
) -> None:
    folder = write_movielens(tmp_path, layout, zipped=False)
    fields = ["1", "1", "5", "900000000"]
    fields[field] = value
    edit_lines(
        folder, RATINGS[layout], lambda lines: [*lines[:20], SEPARATORS[layout].join(fields), *lines[20:]]
    )
    with pytest.raises(InputError, match=rf"{RATINGS[layout]}, line 21, {message}"):
        read_movielens(folder)


def test_all_ratings_out_of_range_are_counted(tmp_path: Path) -> None:
    folder = write_movielens(tmp_path, "1m", zipped=False)
    edit_lines(folder, "ratings.dat", lambda lines: ["1::1::7::1", "1::2::9::1", "1::3::-1::1", *lines])
    with pytest.raises(InputError, match=r"line 1, column rating: found '7'.* \(3 such lines\)"):
        read_movielens(folder)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_line_with_too_few_fields_is_an_error_with_its_number(tmp_path: Path, layout: str) -> None:
    folder = write_movielens(tmp_path, layout, zipped=False)
    edit_lines(
        folder, RATINGS[layout], lambda lines: [*lines[:9], SEPARATORS[layout].join("123"), *lines[9:]]
    )
    with pytest.raises(InputError, match=r"line 10: found 3 fields, expected 4"):
        read_movielens(folder)


def test_single_colons_are_not_a_separator(tmp_path: Path) -> None:
    folder = write_movielens(tmp_path, "1m", zipped=False)
    edit_lines(folder, "ratings.dat", lambda lines: ["1:7:1::5::1", *lines])
    with pytest.raises(InputError, match=r"ratings.dat, line 1: found 3 fields, expected 4 split by '::'"):
        read_movielens(folder)


@pytest.mark.parametrize(
    ("layout", "movies", "line"),
    [("100k", "u.item", "x|T|||0"), ("100k", "u.item", "1|T|0|1"), ("1m", "movies.dat", "1::T"), ("csv", "movies.csv", "1,T")],
)  # fmt: skip
def test_a_movie_without_id_or_genres_is_an_error_with_its_line(
    tmp_path: Path, layout: str, movies: str, line: str
) -> None:
    folder = write_movielens(tmp_path, layout, zipped=False)
    edit_lines(folder, movies, lambda lines: [*lines[:4], line, *lines[4:]])
    with pytest.raises(InputError, match=rf"{movies}, line 5: found movie"):
        read_movielens(folder)


def test_a_missing_column_is_an_error_that_shows_the_header(tmp_path: Path) -> None:
    folder = write_movielens(tmp_path, "csv", zipped=False)
    edit_lines(folder, "ratings.csv", lambda lines: ["user,movieId,rating,timestamp", *lines[1:]])
    with pytest.raises(InputError, match=r"found the columns user, movieId.*userId missing"):
        read_movielens(folder)


def test_a_missing_archive_is_an_error_with_its_page_and_command(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ml-20m.zip: no such file.*download movielens_20m.*grouplens.org"):
        read_movielens(tmp_path / "ml-20m.zip")


@pytest.mark.parametrize("missing", ["u.item", "u.genre"])
def test_an_incomplete_dataset_is_an_error_with_the_missing_file(tmp_path: Path, missing: str) -> None:
    folder = write_movielens(tmp_path, "100k", zipped=False)
    (folder / missing).unlink()
    with pytest.raises(InputError, match=f"found no {missing} in it"):
        read_movielens(folder)


def test_a_folder_without_ratings_is_not_a_movielens_dataset(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match=r"found none of ratings.csv, ratings.dat, u.data"):
        read_movielens(tmp_path)


@pytest.mark.parametrize("content", ["", "userId,movieId,rating,timestamp\n"])
def test_an_empty_file_of_ratings_is_an_error(tmp_path: Path, content: str) -> None:
    folder = write_movielens(tmp_path, "csv", zipped=False)
    (folder / "ratings.csv").write_text(content)
    with pytest.raises(InputError, match=r"ratings.csv"):
        read_movielens(folder)


def test_an_empty_or_truncated_zip_is_an_error(tmp_path: Path) -> None:
    path = write_movielens(tmp_path, "1m")
    original = path.read_bytes()
    for content, message in [
        (b"", "is empty"),
        (original[:-30], "truncated or damaged"),
        (original[:500], "truncated"),
    ]:
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"ml-1m.zip: .*{message}"):
            read_movielens(path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_damaged_member_is_not_reported_as_invalid_lines(tmp_path: Path, layout: str) -> None:
    path = write_movielens(tmp_path, layout, users=400)
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{path.stem}/{RATINGS[layout]}")
    original = path.read_bytes()
    for position in range(member.header_offset + 100, member.header_offset + member.compress_size, 997):
        content = bytearray(original)
        content[position] ^= 0x10
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"the .zip file is truncated or damaged"):
            read_movielens(path)


def test_metadata_files_of_macos_are_ignored(tmp_path: Path) -> None:
    path = write_movielens(tmp_path, "1m")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/ratings.csv", "junk")
    assert len(read_movielens(path).items) == 40
