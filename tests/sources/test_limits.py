"""Files built to exhaust memory or crash a reader raise one error, in bounded memory."""

import gzip
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.raw_files import asin, write_amazon, write_lines, write_movielens

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.sources.amazon import read_amazon
from deep_interest.sources.movielens import read_movielens
from deep_interest.sources.raw_files import text_lines, verify_text
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import read_tables

MB = 1 << 20
LONG_LINE = 100  # MB
MEASURE_MEMORY = """
import resource, sys
from pathlib import Path
from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.sources.amazon import read_amazon
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.movielens import read_movielens
from deep_interest.sources.tables.reader import read_tables
kind, path = sys.argv[1], Path(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    if kind == "amazon":
        read_amazon(path / "reviews_Beauty_5.json.gz", path / "meta_Beauty.json.gz")
    elif kind == "movielens":
        read_movielens(path)
    else:
        source = Source.model_validate({"behaviors": {"files": kind}})
        read_tables(path, source, FeatureColumns(item=("item_id",)), on_bad_line="skip")
except InputError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def long_line(head: bytes, tail: bytes) -> Iterator[bytes]:
    yield head
    for _ in range(LONG_LINE):
        yield b"x" * MB
    yield tail


def write_gzip(path: Path, blocks: Iterator[bytes]) -> None:
    packer = zlib.compressobj(1, wbits=31)
    with path.open("wb") as file:
        for block in blocks:
            file.write(packer.compress(block))
        file.write(packer.flush())


def bomb_in_reviews(folder: Path) -> tuple[str, Path, str]:
    reviews, _ = write_amazon(folder)
    write_gzip(reviews, long_line(b'{"asin": "1"}\n\n{"reviewerID": "', b'"}\n'))
    return "amazon", folder, r"reviews_Beauty_5.json.gz, line 3: the line is longer than 16,777,216 bytes"


def bomb_in_metadata(folder: Path) -> tuple[str, Path, str]:
    _, metadata = write_amazon(folder)
    write_gzip(metadata, long_line(b"{'asin': '1'}\n{'asin': '", b"'}\n"))
    return "amazon", folder, r"meta_Beauty.json.gz, line 2: the line is longer than 16,777,216 bytes"


def bomb_in_csv(folder: Path) -> tuple[str, Path, str]:
    write_gzip(folder / "log.csv.gz", long_line(b"user,item,time\n1,2,3\n1,", b",3\n"))
    return "log.csv.gz", folder, r"log.csv.gz, line 3: the line is longer than 2,000,000 bytes"


def bomb_in_header(folder: Path) -> tuple[str, Path, str]:
    write_gzip(folder / "log.csv.gz", long_line(b"", b"\n"))
    return "log.csv.gz", folder, r"log.csv.gz, line 1: the line is longer than 2,000,000 bytes"


def bomb_in_json(folder: Path) -> tuple[str, Path, str]:
    row = b'{"user": 1, "item": 2, "time": 3}\n'
    write_gzip(folder / "log.json.gz", long_line(2000 * row + b'{"user": "', b'"}\n'))
    return "log.json.gz", folder, r"log.json.gz, line 2001: the line is longer than 16,777,216 bytes"


def bomb_in_zip(folder: Path, name: str) -> tuple[str, Path, str]:
    path = write_movielens(folder, "csv", zipped=False)
    with (path / name).open("ab") as file:
        for block in long_line(b"1,", b"\n"):
            file.write(block)
    return "movielens", path, rf"{name}, line \d+"


@pytest.mark.slow
@pytest.mark.parametrize(
    "bomb",
    [
        bomb_in_reviews,
        bomb_in_metadata,
        bomb_in_csv,
        bomb_in_header,
        bomb_in_json,
        lambda folder: bomb_in_zip(folder, "ratings.csv"),
    ],
)
def test_a_line_of_100_mb_is_one_error_in_little_memory(
    tmp_path: Path, bomb: Callable[[Path], tuple[str, Path, str]]
) -> None:
    kind, path, message = bomb(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", MEASURE_MEMORY, kind, str(path)], capture_output=True, text=True, check=True
    )
    *messages, growth = run.stdout.splitlines()
    assert len(messages) == 1
    assert re.search(message, messages[0])
    assert int(growth) < 90


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("before", [0, 1, MB - 1, MB, MB + 5])
def test_a_line_may_be_exactly_as_long_as_the_limit(tmp_path: Path, ending: str, before: int) -> None:
    path = tmp_path / f"log.json{ending}"
    open_file = gzip.open if ending else open
    for extra, end in ((0, b"\n"), (0, b""), (1, b"\n"), (1, b"")):
        with open_file(path, "wb") as file:
            file.write(b"y" * before + b"\n" + b"x" * (MB + 10 + extra) + end)
        for read in (verify_text, lambda *args: list(text_lines(*args))):
            if extra:
                with pytest.raises(InputError, match=r"line 2: the line is longer than 1,048,586 bytes"):
                    read(path, MB + 10)
            else:
                read(path, MB + 10)


def test_a_csv_line_above_the_limit_is_not_dropped_silently(tmp_path: Path) -> None:
    """DuckDB 2.0 reads a CSV with a line of 300 MB as an empty table; 40 MB also exceeds its buffer."""
    (tmp_path / "log.csv").write_bytes(b"user,item,time\n1,2,3\n1," + b"x" * (40 * MB) + b",3\n4,5,6\n")
    source = Source.model_validate({"behaviors": {"files": "log.csv"}})
    with pytest.raises(InputError, match=r"log.csv, line 3: the line is longer than 2,000,000 bytes"):
        read_tables(tmp_path, source, FeatureColumns(item=("item_id",)), on_bad_line="skip")


def test_brackets_nested_100_000_deep_are_an_invalid_line(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    reviews, metadata = write_amazon(tmp_path)
    write_lines(metadata, [f"{{'asin': '{asin(0)}', 'categories': {deep}}}"])
    with pytest.raises(InputError, match=r"line 1: column categories: found '\[\[\["):
        read_amazon(reviews, metadata)
    write_lines(metadata, [f"{{'asin': '{asin(0)}', 'other': {deep}, 'categories': [['A', 'B']]}}"])
    categories = read_amazon(reviews, metadata).items.set_index("item")["category"]
    assert categories[asin(0)] == "B"
    review = json.dumps({"reviewerID": "u", "asin": "i", "unixReviewTime": 1})
    write_lines(reviews, [review, f'{{"reviewerID": "u", "asin": "i", "unixReviewTime": {deep}}}'])
    with pytest.raises(InputError, match=r"line 2"):
        read_amazon(reviews)
    write_lines(tmp_path / "log.json", [f'{{"user": 1, "item": 2, "time": {deep}}}'])
    source = Source.model_validate({"behaviors": {"files": "log.json"}})
    with pytest.raises(InputError, match=r"log.json, line 1: expected one JSON object per line"):
        read_tables(tmp_path, source, FeatureColumns(item=("item_id",)))


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_category_with_a_lone_surrogate_is_an_invalid_line(tmp_path: Path, quote: str) -> None:
    reviews, metadata = write_amazon(tmp_path)
    line = f"{{'asin': '{asin(0)}', 'categories': [['\\ud800']]}}"
    write_lines(metadata, [line.replace("'", quote)])
    with pytest.raises(InputError, match=r"meta_Beauty.json.gz, line 1: .*surrogates not allowed"):
        read_amazon(reviews, metadata)


def test_a_long_header_field_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(f"user,item,time,{'x' * 200_000}\n1,2,3,4\n")
    source = Source.model_validate({"behaviors": {"files": "log.csv"}})
    with pytest.raises(InputError, match=r"log.csv, line 1: not a valid CSV header"):
        read_tables(tmp_path, source, FeatureColumns(item=("item_id",)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'1,"{"x" * 200_000}",Drama', r"movies.csv, line 2: found movie ''"),
        (f"{'9' * 5000},Title,Drama", r"movies.csv, line 2: found movie '9{60}' with genres 'Drama'"),
    ],
)
def test_an_implausible_movie_is_one_error(tmp_path: Path, line: str, message: str) -> None:
    path = write_movielens(tmp_path, "csv", zipped=False)
    (path / "movies.csv").write_text(f"movieId,title,genres\n{line}\n")
    with pytest.raises(InputError, match=message):
        read_movielens(path)
