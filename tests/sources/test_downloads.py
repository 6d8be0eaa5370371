"""The table of public files and the message about a missing raw file."""

from pathlib import Path

import pytest

from deep_interest.sources.downloads import DOWNLOADS, missing_file_message, raw_root


def test_every_dataset_lists_its_files_relative_to_the_raw_root() -> None:
    paths = {name: [file.path for file in download.files] for name, download in DOWNLOADS.items()}
    assert paths == {
        "movielens_100k": ["movielens/ml-100k.zip"],
        "movielens_1m": ["movielens/ml-1m.zip"],
        "movielens_20m": ["movielens/ml-20m.zip"],
        "movielens_25m": ["movielens/ml-25m.zip"],
        "movielens_32m": ["movielens/ml-32m.zip"],
        "movielens_latest_small": ["movielens/ml-latest-small.zip"],
        "amazon_toys": ["amazon/reviews_Toys_and_Games_5.json.gz", "amazon/meta_Toys_and_Games.json.gz"],
        "amazon_beauty": ["amazon/reviews_Beauty_5.json.gz", "amazon/meta_Beauty.json.gz"],
        "amazon_sports": [
            "amazon/reviews_Sports_and_Outdoors_5.json.gz",
            "amazon/meta_Sports_and_Outdoors.json.gz",
        ],
        "amazon_electronics": ["amazon/reviews_Electronics_5.json.gz", "amazon/meta_Electronics.json.gz"],
        "amazon_books": ["amazon/reviews_Books_5.json.gz", "amazon/meta_Books.json.gz"],
    }


def test_movielens_has_a_published_checksum_and_amazon_has_none() -> None:
    (movielens,) = DOWNLOADS["movielens_1m"].files
    assert movielens.url == "https://files.grouplens.org/datasets/movielens/ml-1m.zip"
    assert movielens.md5_url == "https://files.grouplens.org/datasets/movielens/ml-1m.zip.md5"
    reviews, _ = DOWNLOADS["amazon_electronics"].files
    assert reviews.url == (
        "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles/reviews_Electronics_5.json.gz"
    )
    assert reviews.md5_url is None


def test_the_message_names_file_page_path_and_command() -> None:
    message = missing_file_message(Path("raw/movielens/ml-1m.zip"))
    for expected in (
        "raw/movielens/ml-1m.zip: no such file",
        "`deep-interest download movielens_1m`",
        "https://grouplens.org/datasets/movielens/1m/",
        "save your own copy as raw/movielens/ml-1m.zip",
        "DEEP_INTEREST_RAW",
    ):
        assert expected in message


def test_the_message_of_a_file_without_download_names_the_given_page() -> None:
    message = missing_file_message(
        Path("raw/taobao/UserBehavior.csv.gz"), download=None, page="https://example.org/taobao"
    )
    assert "https://example.org/taobao" in message
    assert "deep-interest download" not in message


def test_the_raw_root_is_the_argument_the_variable_or_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEP_INTEREST_RAW", "/elsewhere")
    assert raw_root("here") == Path("here")
    assert raw_root() == Path("/elsewhere")
    monkeypatch.delenv("DEEP_INTEREST_RAW")
    assert raw_root() == Path("data/01_raw")
