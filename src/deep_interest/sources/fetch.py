"""Download a public file into the folder of raw files; it gets its final name only after it is verified."""

from collections.abc import Callable
from pathlib import Path

import requests

from deep_interest.errors import InputError
from deep_interest.sources.downloads import RemoteFile
from deep_interest.sources.integrity import check_archive, check_md5, find_md5
from deep_interest.sources.transfer import SafeSession, convert_network_errors, discard, finish, transfer

_TIMEOUT = (10, 60)  # seconds


def fetch(file: RemoteFile, root: Path, *, report: Callable[[str], None]) -> Path:
    """Download ``file`` to its path below ``root``, unless a valid copy already exists.

    The file is called ``<name>.part`` until it is verified by the publisher's MD5 or, if there is none, by the
    archive's own checksums. An interrupted download is resumed by the next call.

    Args:
        file: file to download.
        root: root of the raw files.
        report: function called with each status line for the user.

    Returns:
        Path of the verified file.

    Raises:
        InputError: the network or the disk failed, or the file differs from the publisher's.
    """
    target = root / file.path
    if target.exists():
        report(f"{target}: already downloaded ({_check_existing(target, file)})")
        return target
    md5 = _published_md5(file)
    part = target.with_name(f"{target.name}.part")
    with convert_network_errors(file.url):
        part.parent.mkdir(parents=True, exist_ok=True)
    report(f"{file.url} -> {target}")
    transfer(file.url, part)
    try:
        result = _check(part, file, md5)
    except InputError as error:
        discard(part)
        raise InputError(
            f"{error} The file was deleted; run the same command again to download it."
        ) from error
    finish(part, target)
    report(f"{target}: {result}")
    return target


def _check_existing(target: Path, file: RemoteFile) -> str:
    try:
        md5 = _published_md5(file)
    except InputError:
        md5 = None  # offline: verify by the archive's own checksums
    try:
        return _check(target, file, md5)
    except InputError as error:
        raise InputError(
            f"{error} The file was not changed: move it away to download the publisher's."
        ) from error


def _check(path: Path, file: RemoteFile, md5: str | None) -> str:
    return check_md5(path, md5) if md5 else check_archive(path, file.path)


def _published_md5(file: RemoteFile) -> str | None:
    if file.md5 or file.md5_url is None:
        return file.md5
    with convert_network_errors(file.md5_url), SafeSession() as session:
        response = session.get(file.md5_url, timeout=_TIMEOUT)
    if response.status_code == requests.codes.not_found:
        return None
    if not response.ok:
        raise InputError(f"{file.md5_url}: the server responds with {response.status_code}. Try again later.")
    return find_md5(response.text)
