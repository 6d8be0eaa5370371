"""Amazon reviews and metadata: canonical tables, and errors for invalid files."""

import gzip
import logging
from collections import Counter
from pathlib import Path

import pytest
from support.raw_files import asin, draw_actions, reviewer, write_amazon, write_lines

from deep_interest.errors import InputError
from deep_interest.sources import raw_files
from deep_interest.sources.amazon import read_amazon

REVIEW = '{"reviewerID": "U1", "asin": "I1", "overall": 5.0, "unixReviewTime": 1300000000}'


def test_every_review_is_one_behaviour_in_file_order(tmp_path: Path) -> None:
    tables = read_amazon(*write_amazon(tmp_path, users=60, items=40, categories=5, seed=0))
    actions = draw_actions(users=60, items=40, categories=5, seed=0)
    assert tables.behaviors["user"].tolist() == [reviewer(action.user) for action in actions]
    assert tables.behaviors["item"].tolist() == [asin(action.item) for action in actions]
    assert tables.behaviors["time"].tolist() == [action.time for action in actions]
    assert tables.behaviors["rating"].tolist() == [action.stars for action in actions]
    assert {name: str(dtype) for name, dtype in tables.behaviors.dtypes.items()}["time"] == "int64"
    assert str(tables.behaviors["rating"].dtype) == "float32"
    assert tables.left_out == {}
    assert tables.users is None
    assert tables.impressions is None


def test_items_are_the_reviewed_ones_with_their_last_category(
    tmp_path: Path,
) -> None:
    tables = read_amazon(*write_amazon(tmp_path, items=40, categories=5))
    reviewed = {asin(action.item): f"Men's kind {action.item % 5}" for action in draw_actions(
        users=60, items=40, categories=5, seed=0)}  # fmt: skip
    assert dict(zip(tables.items["item"], tables.items["category"], strict=True)) == reviewed
    assert asin(40) not in set(tables.items["item"])  # in the metadata, never reviewed
    assert tables.items["item"].is_unique


def test_uncompressed_files_give_the_same_tables(tmp_path: Path) -> None:
    packed = write_amazon(tmp_path)
    plain = [path.with_suffix("") for path in packed]
    for source, target in zip(packed, plain, strict=True):
        target.write_bytes(gzip.decompress(source.read_bytes()))
    expected, tables = read_amazon(*packed), read_amazon(*plain)
    assert tables.behaviors.equals(expected.behaviors)
    assert tables.items.equals(expected.items)


@pytest.mark.slow
def test_no_line_is_lost_between_the_chunks_of_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviews, metadata = write_amazon(tmp_path, users=5)
    expected = read_amazon(reviews, metadata)
    for size in (64, 1000, 4096):  # 64 bytes are shorter than a line
        monkeypatch.setattr(raw_files, "_CHUNK_SIZE", size)
        assert read_amazon(reviews, metadata).behaviors.equals(expected.behaviors)


def test_without_metadata_categories_are_unknown_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reviews, metadata = write_amazon(tmp_path, items=40, metadata=False)
    for path in (None, metadata):
        with caplog.at_level(logging.WARNING):
            tables = read_amazon(reviews, path)
        assert set(tables.items["category"]) == {"unknown"}
        assert f"{len(tables.items)} of {len(tables.items)} items have no category" in caplog.text
        assert tables.left_out == {}


def test_there_is_a_rating_column_only_if_a_review_has_a_rating(tmp_path: Path) -> None:
    bare = '{"reviewerID": "U1", "asin": "I2", "unixReviewTime": 7}'
    without = read_amazon(write_lines(tmp_path / "a.json", [bare, bare]))
    assert list(without.behaviors) == ["user", "item", "time"]
    mixed = read_amazon(write_lines(tmp_path / "b.json", [bare, REVIEW]))
    assert mixed.behaviors["rating"].isna().tolist() == [True, False]


def test_blank_lines_and_windows_line_ends_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "reviews.json"
    path.write_bytes(f"{REVIEW}\r\n\r\n   \n{REVIEW}".encode())
    assert len(read_amazon(path).behaviors) == 2


def test_escapes_in_ids_are_decoded(tmp_path: Path) -> None:
    line = r'{"reviewerID": "U\u00e9\"1", "asin": "I/1", "unixReviewTime": 7}'
    tables = read_amazon(write_lines(tmp_path / "reviews.json", [line]))
    assert tables.behaviors["user"].tolist() == ['Ué"1']


INVALID_LINES = [
    ('{"reviewerID": "U1", "asin": ', "malformed JSON", "line is not a review"),
    ("[1, 2]", r"found \[1, 2\]", "line is not a review"),
    ('{"summary": "fine"}', "expected an object with reviewerID", "line is not a review"),
    ('{"asin": "I1", "unixReviewTime": 7}', "column reviewerID: found no such field", "review without reviewerID"),
    ('{"reviewerID": "", "asin": "I1", "unixReviewTime": 7}', "column reviewerID: found ''", "review without reviewerID"),
    ('{"reviewerID": "U1", "asin": null, "unixReviewTime": 7}', "column asin: found None", "review without asin"),
    ('{"reviewerID": "U1", "asin": "I1"}', "column unixReviewTime: found no such", "review without unixReviewTime"),
    (REVIEW.replace("1300000000", '"noon"'), "column unixReviewTime: found 'noon'", "review without unixReviewTime"),
    (REVIEW.replace("5.0", "5.5"), "column overall: found 5.5, expected a rating in 1..5", "overall outside 1..5"),
    (REVIEW.replace("5.0", "0"), "column overall: found 0,", "overall outside 1..5"),
    (REVIEW.replace("5.0", '"five"'), "column overall: found 'five'", "overall outside 1..5"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message", "_reason"), INVALID_LINES)
@pytest.mark.parametrize("name", ["reviews.json", "reviews.json.gz"])
def test_an_invalid_line_is_an_error_with_its_line_number(
    tmp_path: Path, name: str, line: str, message: str, _reason: str
) -> None:
    path = write_lines(tmp_path / name, [REVIEW, "", REVIEW, line, REVIEW, line])
    with pytest.raises(InputError, match=rf"{name}, line 4\b.*{message}"):
        read_amazon(path)


def test_invalid_lines_may_be_skipped_and_are_counted_by_reason(tmp_path: Path) -> None:
    lines = [REVIEW, *(line for line, _, _ in INVALID_LINES), REVIEW]
    tables = read_amazon(write_lines(tmp_path / "reviews.json", lines), on_bad_line="skip")
    assert len(tables.behaviors) == 2
    assert tables.left_out == dict(Counter(reason for _, _, reason in INVALID_LINES))


def test_a_byte_that_is_not_utf8_is_an_error_with_its_line_number(tmp_path: Path) -> None:
    path = tmp_path / "reviews.json"
    path.write_bytes(f"{REVIEW}\n".encode() + REVIEW.encode().replace(b"U1", b"U\xff"))
    with pytest.raises(InputError, match="line 2: found bytes that are not UTF-8"):
        read_amazon(path)


def test_a_missing_file_is_an_error_with_its_page_and_command(tmp_path: Path) -> None:
    path = tmp_path / "reviews_Beauty_5.json.gz"
    with pytest.raises(
        InputError, match=r"reviews_Beauty_5.json.gz: no such file.*download amazon_beauty.*https://"
    ):
        read_amazon(path)


@pytest.mark.parametrize(
    "content",
    [b"", gzip.compress(b""), gzip.compress(b"\n\n")],
    ids=["empty", "compressed empty", "blank lines"],
)
def test_an_empty_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "reviews.json.gz"
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"reviews.json.gz: (the file is empty|the file contains no reviews)"
    ):
        read_amazon(path)


@pytest.mark.parametrize("cut", [1, 8, 9, 100, 1000])
def test_a_truncated_gz_file_is_an_error(tmp_path: Path, cut: int) -> None:
    reviews, _ = write_amazon(tmp_path)
    reviews.write_bytes(reviews.read_bytes()[:-cut])
    with pytest.raises(InputError, match=r"the .gz file is truncated or damaged"):
        read_amazon(reviews, on_bad_line="skip")


def test_a_flipped_bit_or_another_format_is_a_damaged_gz_file(tmp_path: Path) -> None:
    reviews, _ = write_amazon(tmp_path)
    content = bytearray(reviews.read_bytes())
    content[-6] ^= 1  # in its checksum
    for damaged in (bytes(content), b"<html>404</html>"):
        reviews.write_bytes(damaged)
        with pytest.raises(InputError, match=r"the .gz file is truncated or damaged"):
            read_amazon(reviews)
