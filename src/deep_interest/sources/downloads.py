"""What is public and where: the files that ``deep-interest download NAME`` fetches, and what to say when one is missing."""

import os
from dataclasses import dataclass
from pathlib import Path

RAW_ROOT_VARIABLE = "DEEP_INTEREST_RAW"
DEFAULT_RAW_ROOT = Path("data/01_raw")


@dataclass(frozen=True)
class RemoteFile:
    """One file at its publisher's.

    Attributes:
        url: where the publisher keeps it.
        place: where it belongs below the root of the raw files, ``movielens/ml-1m.zip``.
        md5_url: the publisher's checksum beside it, or None where there is none.
        md5: the checksum itself, where the file is final: the publisher's server is then not asked for it.
    """

    url: str
    place: str
    md5_url: str | None = None
    md5: str | None = None


@dataclass(frozen=True)
class Download:
    """A dataset's files and the official page that describes them and their licence."""

    page: str
    files: tuple[RemoteFile, ...]


def raw_root(to: str | Path | None = None) -> Path:
    """Return the root of the raw files: ``to``, else ``$DEEP_INTEREST_RAW``, else ``data/01_raw``."""
    return Path(to or os.environ.get(RAW_ROOT_VARIABLE) or DEFAULT_RAW_ROOT)


def explain_missing(path: Path, download: str | None = None, page: str | None = None) -> str:
    """Say which raw file is missing, where it comes from and where to put it.

    Args:
        path: where the file was looked for.
        download: the name for ``deep-interest download``; where None, it is looked up by the file's name.
        page: the dataset's official page; where None, that of the download.
    """
    download = download or _download_of(path.name)
    page = page or (DOWNLOADS[download].page if download in DOWNLOADS else None)
    lines = [f"{path}: no such file."]
    if download:
        lines.append(f"`deep-interest download {download}` fetches it.")
    if page:
        lines.append(f"Its official page is {page}; a copy of your own belongs at {path}.")
    lines.append(f"Raw files kept elsewhere: set {RAW_ROOT_VARIABLE} to their root.")
    return " ".join(lines)


def _download_of(name: str) -> str | None:
    for download, entry in DOWNLOADS.items():
        if any(Path(file.place).name == name for file in entry.files):
            return download
    return None


def _movielens(name: str, page: str, md5: str | None = None) -> Download:
    url = f"https://files.grouplens.org/datasets/movielens/{name}.zip"
    file = RemoteFile(url, f"movielens/{name}.zip", md5_url=f"{url}.md5", md5=md5)
    return Download(f"https://grouplens.org/datasets/movielens/{page}/", (file,))


def _amazon(category: str) -> Download:
    base = "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles"
    names = (f"reviews_{category}_5.json.gz", f"meta_{category}.json.gz")
    files = tuple(RemoteFile(f"{base}/{name}", f"amazon/{name}") for name in names)
    return Download("https://cseweb.ucsd.edu/~jmcauley/datasets/amazon/links.html", files)


DOWNLOADS: dict[str, Download] = {
    "movielens_100k": _movielens("ml-100k", "100k", "0e33842e24a9c977be4e0107933c0723"),
    "movielens_1m": _movielens("ml-1m", "1m", "c4d9eecfca2ab87c1945afe126590906"),
    "movielens_20m": _movielens("ml-20m", "20m", "cd245b17a1ae2cc31bb14903e1204af3"),
    "movielens_25m": _movielens("ml-25m", "25m", "6b51fb2759a8657d3bfcbfc42b592ada"),
    "movielens_32m": _movielens("ml-32m", "32m", "d472be332d4daa821edc399621853b57"),
    "movielens_latest_small": _movielens("ml-latest-small", "latest"),  # changes over time: no fixed digest
    "amazon_toys": _amazon("Toys_and_Games"),
    "amazon_beauty": _amazon("Beauty"),
    "amazon_sports": _amazon("Sports_and_Outdoors"),
    "amazon_electronics": _amazon("Electronics"),
    "amazon_books": _amazon("Books"),
}

# Official page, and folder below the root of the raw files, of what the publishers give out on their pages only.
BY_HAND: dict[str, tuple[str, str]] = {
    "kuairand": ("https://kuairand.com", "kuairand-pure"),
    "taobao": ("https://tianchi.aliyun.com/dataset/649", "taobao"),
    "alibaba_ads": ("https://tianchi.aliyun.com/dataset/56", "alibaba_ads"),
}
