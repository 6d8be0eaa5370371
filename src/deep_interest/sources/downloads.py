"""Public datasets: the files that ``deep-interest download NAME`` fetches, and the message about a missing file."""

import os
from dataclasses import dataclass
from pathlib import Path

from deep_interest.errors import InputError

RAW_ROOT_VARIABLE = "DEEP_INTEREST_RAW"
DEFAULT_RAW_ROOT = Path("data/01_raw")


@dataclass(frozen=True)
class RemoteFile:
    """File on a publisher's server.

    Attributes:
        url: address of the file.
        path: path relative to the root of the raw files, such as ``movielens/ml-1m.zip``.
        md5_url: address of the published MD5, or None if there is none.
        md5: the MD5 itself, for files that never change; it is then not requested from the server.
    """

    url: str
    path: str
    md5_url: str | None = None
    md5: str | None = None


@dataclass(frozen=True)
class Download:
    """Files of a dataset.

    Attributes:
        page: official page with the description and the licence.
        files: files to download.
    """

    page: str
    files: tuple[RemoteFile, ...]


def raw_location() -> str:
    """Return the path or URL of the raw files: ``$DEEP_INTEREST_RAW``, or ``data/01_raw``."""
    return (os.environ.get(RAW_ROOT_VARIABLE) or str(DEFAULT_RAW_ROOT)).rstrip("/") or "/"


def raw_root(folder: str | Path | None = None) -> Path:
    """Return the folder for downloads: ``folder``, or the root of the raw files.

    Raises:
        InputError: the root is a URL.
    """
    root = str(folder or raw_location())
    if "://" in root:
        raise InputError(
            f"{'--to' if folder else RAW_ROOT_VARIABLE}: found {root}; files are downloaded to a local folder only: name one by --to, "
            "and copy the files to the object store from there"
        )
    return Path(root)


def missing_file_message(path: Path, download: str | None = None, page: str | None = None) -> str:
    """Return a message that says which raw file is missing, where to get it and where to put it.

    Args:
        path: expected path of the file.
        download: dataset name for ``deep-interest download``; looked up by the file's name if None.
        page: official page of the dataset; defaults to the page of the download.
    """
    download = download or _find_download(path.name)
    page = page or (DOWNLOADS[download].page if download in DOWNLOADS else None)
    lines = [f"{path}: no such file."]
    if download:
        lines.append(f"Run `deep-interest download {download}` to fetch it.")
    if page:
        lines.append(f"Its official page is {page}; save your own copy as {path}.")
    lines.append(f"If your raw files are elsewhere, set {RAW_ROOT_VARIABLE} to their root folder.")
    return " ".join(lines)


def _find_download(file_name: str) -> str | None:
    for download, entry in DOWNLOADS.items():
        if any(Path(file.path).name == file_name for file in entry.files):
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
    "movielens_latest_small": _movielens("ml-latest-small", "latest"),  # changes over time: no fixed MD5
    "amazon_toys": _amazon("Toys_and_Games"),
    "amazon_beauty": _amazon("Beauty"),
    "amazon_sports": _amazon("Sports_and_Outdoors"),
    "amazon_electronics": _amazon("Electronics"),
    "amazon_books": _amazon("Books"),
}

# Official page and folder (relative to the root of the raw files) of datasets that can only be downloaded by hand.
MANUAL_DOWNLOADS: dict[str, tuple[str, str]] = {
    "kuairand": ("https://kuairand.com", "kuairand-pure"),
    "taobao": ("https://tianchi.aliyun.com/dataset/649", "taobao"),
    "alibaba_ads": ("https://tianchi.aliyun.com/dataset/56", "alibaba_ads"),
}
