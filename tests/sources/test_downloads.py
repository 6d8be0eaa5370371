"""The table of public files, and what is said when a raw file is missing."""

from pathlib import Path

import pytest

from deep_interest.sources.downloads import DOWNLOADS, explain_missing, raw_root


def test_every_name_of_the_command_is_known_and_lies_in_its_place() -> None:
    places = {name: [file.place for file in download.files] for name, download in DOWNLOADS.items()}
    assert places == {
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


def test_movielens_has_a_published_checksum_and_amazon_none() -> None:
    (movielens,) = DOWNLOADS["movielens_1m"].files
    assert movielens.url == "https://files.grouplens.org/datasets/movielens/ml-1m.zip"
    assert movielens.md5_url == "https://files.grouplens.org/datasets/movielens/ml-1m.zip.md5"
    reviews, _ = DOWNLOADS["amazon_electronics"].files
    assert reviews.url == (
        "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles/reviews_Electronics_5.json.gz"
    )
    assert reviews.md5_url is None


def test_a_missing_public_file_is_explained_by_file_page_place_and_command() -> None:
    text = explain_missing(Path("raw/movielens/ml-1m.zip"))
    for part in (
        "raw/movielens/ml-1m.zip: no such file",
        "`deep-interest download movielens_1m`",
        "https://grouplens.org/datasets/movielens/1m/",
        "belongs at raw/movielens/ml-1m.zip",
        "DEEP_INTEREST_RAW",
    ):
        assert part in text


def test_a_missing_file_without_download_is_explained_by_the_given_page() -> None:
    text = explain_missing(
        Path("raw/taobao/UserBehavior.csv.gz"), download=None, page="https://example.org/taobao"
    )
    assert "https://example.org/taobao" in text
    assert "deep-interest download" not in text


def test_the_root_is_the_given_one_else_the_environments_else_kedros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEP_INTEREST_RAW", "/elsewhere")
    assert raw_root("here") == Path("here")
    assert raw_root() == Path("/elsewhere")
    monkeypatch.delenv("DEEP_INTEREST_RAW")
    assert raw_root() == Path("data/01_raw")
