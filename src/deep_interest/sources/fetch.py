"""Bringing a public file to its place among the raw files: fetched, verified, and only then under its name."""

from collections.abc import Callable
from pathlib import Path

import requests

from deep_interest.errors import InputError
from deep_interest.sources.downloads import RemoteFile
from deep_interest.sources.integrity import check_archive, check_md5, md5_in
from deep_interest.sources.transfer import SafeSession, discard, finish, named_errors, transfer

_TIMEOUT = (10, 60)  # seconds


def fetch(file: RemoteFile, root: Path, *, say: Callable[[str], None]) -> Path:
    """Bring ``file`` to its place below ``root``; one that is there and whole is not fetched again.

    Until it is verified, by the publisher's MD5 or, where there is none, by the archive's own checksums, its name is
    ``<name>.part``. An interrupted transfer goes on the next time.

    Args:
        file: what to fetch.
        root: of the raw files.
        say: called with each line for the user.

    Raises:
        InputError: if the network or disk fails, or the file is not the publisher's.
    """
    target = root / file.place
    if target.exists():
        say(f"{target}: already there ({_check_present(target, file)})")
        return target
    md5 = _published_md5(file)
    part = target.with_name(f"{target.name}.part")
    with named_errors(file.url):
        part.parent.mkdir(parents=True, exist_ok=True)
    say(f"{file.url} -> {target}")
    transfer(file.url, part)
    try:
        verdict = _check(part, file, md5)
    except InputError as error:
        discard(part)
        raise InputError(f"{error} It was thrown away; the same command fetches it anew.") from error
    finish(part, target)
    say(f"{target}: {verdict}")
    return target


def _check_present(target: Path, file: RemoteFile) -> str:
    try:
        md5 = _published_md5(file)
    except InputError:
        md5 = None  # offline: its own checksums have to do
    try:
        return _check(target, file, md5)
    except InputError as error:
        raise InputError(f"{error} It is left as it is: move it away to fetch the publisher's.") from error


def _check(path: Path, file: RemoteFile, md5: str | None) -> str:
    return check_md5(path, md5) if md5 else check_archive(path, file.place)


def _published_md5(file: RemoteFile) -> str | None:
    if file.md5 or file.md5_url is None:
        return file.md5
    with named_errors(file.md5_url), SafeSession() as session:
        response = session.get(file.md5_url, timeout=_TIMEOUT)
    if response.status_code == requests.codes.not_found:
        return None
    if not response.ok:
        raise InputError(f"{file.md5_url}: the server answers {response.status_code}. Try again later.")
    return md5_in(response.text)
