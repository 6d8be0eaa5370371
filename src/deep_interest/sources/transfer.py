"""One transfer over HTTP into a ``.part`` file, which goes on where an earlier one broke off."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urljoin

import requests
import urllib3
from tqdm import tqdm

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path

_BLOCK = 1 << 18  # bytes
_TIMEOUT = (10, 60)  # seconds to connect, seconds without a byte


@dataclass(frozen=True)
class Origin:
    """What the bytes of a ``.part`` are part of; kept beside it as ``.part.json``.

    Attributes:
        url: where they came from.
        validator: the file's ETag, else its date, or None.
        size: the whole file's size in bytes, or None where the server does not say.
    """

    url: str
    validator: str | None
    size: int | None


class SafeSession(requests.Session):
    """A session whose redirects may not lead from https to an unencrypted address."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target and resp.url.startswith("https:") and not urljoin(resp.url, target).startswith("https:"):
            raise InputError(
                f"{resp.url}: the server redirects to {target}, which is not encrypted; the file was not fetched. Try again "
                "later, or fetch it from the dataset's official page."
            )
        return target


def transfer(url: str, part: Path) -> None:
    """Fetch ``url`` into ``part``, going on after the bytes that an earlier transfer of the same file left there.

    It begins anew where the server ignores ranges, or has another file by now: told by ``If-Range`` with the ETag
    or date, and by the whole size.

    Raises:
        InputError: if the server refuses, the connection breaks off, or the disk is full. ``part`` stays.
    """
    with named_errors(url), SafeSession() as session:
        have, origin = _unfinished(url, part)
        response = _get(session, url, have, origin)
        if (
            have
            and response.status_code == requests.codes.requested_range_not_satisfiable
            and have == origin.size
        ):
            return
        if have and not _goes_on(response, have, origin):
            response.close()
            response = _get(session, url, 0, None)
        with response:
            _receive(response, url, part)


def discard(part: Path) -> None:
    """Remove ``part`` and what is known about it."""
    part.unlink(missing_ok=True)
    _origin_path(part).unlink(missing_ok=True)


def finish(part: Path, target: Path) -> None:
    """Move a verified ``part`` to its place."""
    with part.open("rb") as stream:
        os.fsync(stream.fileno())
    os.replace(part, target)
    discard(part)


@contextmanager
def named_errors(url: str) -> Iterator[None]:
    """Turn what a network or disk throws into one line."""
    try:
        yield
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        timeout = isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError)
        fault = "the server does not answer" if timeout else "the connection failed or broke off"
        raise InputError(
            f"{url}: {fault} ({type(error).__name__}). What has arrived is kept: the same command goes on from there."
        ) from error
    except OSError as error:
        raise InputError(
            f"{error.filename or url}: cannot be written ({error.strerror}). Once that is mended, the same command goes on."
        ) from error


def _get(session: requests.Session, url: str, have: int, origin: Origin | None) -> requests.Response:
    headers = {"Accept-Encoding": "identity"}
    if have and origin:
        headers["Range"] = f"bytes={have}-"
        if origin.validator:
            headers["If-Range"] = origin.validator
    response = session.get(url, headers=headers, stream=True, timeout=_TIMEOUT)
    if not response.ok and response.status_code != requests.codes.requested_range_not_satisfiable:
        response.close()
        raise InputError(
            f"{url}: the server answers {response.status_code} {response.reason}. Try again later."
        )
    return response


def _goes_on(response: requests.Response, have: int, origin: Origin) -> bool:
    if response.status_code == requests.codes.ok:
        return True  # the whole file: the same response serves to begin anew
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if response.status_code != requests.codes.partial_content or found is None:
        return False
    same_size = origin.size is None or found[2] in ("*", str(origin.size))
    return int(found[1]) == have and same_size and _validator(response) in (None, origin.validator)


def _receive(response: requests.Response, url: str, part: Path) -> None:
    append = response.status_code == requests.codes.partial_content
    have = part.stat().st_size if append else 0
    length = response.headers.get("Content-Length")
    size = have + int(length) if length else None
    with part.open("ab" if append else "wb") as file:
        if not append:
            _remember(part, Origin(url, _validator(response), size))
        with tqdm(total=size, initial=have, unit="B", unit_scale=True, desc=part.stem, disable=None) as bar:
            for block in response.raw.stream(_BLOCK, decode_content=False):
                file.write(block)
                bar.update(len(block))
    arrived = part.stat().st_size
    if size is not None and arrived != size:
        raise urllib3.exceptions.IncompleteRead(arrived, size - arrived)


def _validator(response: requests.Response) -> str | None:
    tag = response.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _unfinished(url: str, part: Path) -> tuple[int, Origin | None]:
    try:
        origin = Origin(**json.loads(_origin_path(part).read_text()))
        have = part.stat().st_size
    except (FileNotFoundError, ValueError, TypeError):
        return 0, None
    known = origin.validator is not None or origin.size is not None
    return (have, origin) if origin.url == url and known else (0, None)


def _remember(part: Path, origin: Origin) -> None:
    with atomic_path(_origin_path(part)) as path:
        path.write_text(json.dumps(asdict(origin)))


def _origin_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")
