"""Download over HTTP into a ``.part`` file, resuming an interrupted download."""

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

_BLOCK_SIZE = 1 << 18  # bytes
_TIMEOUT = (10, 60)  # seconds to connect, seconds without a byte


@dataclass(frozen=True)
class Origin:
    """Origin of the bytes in a ``.part`` file, stored next to it as ``.part.json``.

    Attributes:
        url: address of the file.
        validator: ETag of the file, or its Last-Modified date, or None.
        size: size of the whole file in bytes, or None if the server does not state it.
    """

    url: str
    validator: str | None
    size: int | None


class SafeSession(requests.Session):
    """Session that refuses redirects from https to an unencrypted address."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return the redirect target of a response, if any.

        Raises:
            InputError: the response is encrypted and the target is not.
        """
        target = super().get_redirect_target(resp)
        if target and resp.url.startswith("https:") and not urljoin(resp.url, target).startswith("https:"):
            raise InputError(
                f"{resp.url}: the server redirects to {target}, which is not encrypted; the file was not downloaded. "
                "Try again later, or download it from the dataset's official page."
            )
        return target


def transfer(url: str, part: Path) -> None:
    """Download ``url`` into ``part``, resuming after the bytes of an interrupted download of the same file.

    The download starts over if the server ignores ranges, or if its file has changed, which is detected by
    ``If-Range`` with the ETag or date and by the size of the whole file.

    Args:
        url: address of the file.
        part: path of the ``.part`` file.

    Raises:
        InputError: the server refuses, the connection fails, or the disk is full. ``part`` is kept.
    """
    with convert_network_errors(url), SafeSession() as session:
        offset, origin = _find_partial(url, part)
        response = _get(session, url, offset, origin)
        if offset and origin is not None:
            unsatisfiable = response.status_code == requests.codes.requested_range_not_satisfiable
            if unsatisfiable and offset == origin.size:
                return
            if not _is_resumable(response, offset, origin):
                response.close()
                response = _get(session, url, 0, None)
        with response:
            _receive(response, url, part)


def discard(part: Path) -> None:
    """Delete ``part`` and the file with its origin."""
    part.unlink(missing_ok=True)
    _origin_path(part).unlink(missing_ok=True)


def finish(part: Path, target: Path) -> None:
    """Move a verified ``part`` to ``target``."""
    with part.open("rb") as stream:
        os.fsync(stream.fileno())
    os.replace(part, target)
    discard(part)


@contextmanager
def convert_network_errors(url: str) -> Iterator[None]:
    """Convert network and disk errors into an ``InputError`` with a message of one line.

    Args:
        url: address of the file, for the message.

    Raises:
        InputError: the network or the disk failed.
    """
    try:
        yield
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        timeout = isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError)
        problem = "the server does not respond" if timeout else "the connection failed or was interrupted"
        raise InputError(
            f"{url}: {problem} ({type(error).__name__}). The downloaded bytes are kept; run the same command again to "
            "resume."
        ) from error
    except OSError as error:
        raise InputError(
            f"{error.filename or url}: cannot be written ({error.strerror}). Fix this, then run the same command again "
            "to resume."
        ) from error


def _get(session: requests.Session, url: str, offset: int, origin: Origin | None) -> requests.Response:
    headers = {"Accept-Encoding": "identity"}
    if offset and origin:
        headers["Range"] = f"bytes={offset}-"
        if origin.validator:
            headers["If-Range"] = origin.validator
    response = session.get(url, headers=headers, stream=True, timeout=_TIMEOUT)
    if not response.ok and response.status_code != requests.codes.requested_range_not_satisfiable:
        response.close()
        raise InputError(
            f"{url}: the server responds with {response.status_code} {response.reason}. Try again later."
        )
    return response


def _is_resumable(response: requests.Response, offset: int, origin: Origin) -> bool:
    if response.status_code == requests.codes.ok:
        return True  # the whole file: this response can be used to start over
    content_range = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if response.status_code != requests.codes.partial_content or content_range is None:
        return False
    same_size = origin.size is None or content_range[2] in ("*", str(origin.size))
    return int(content_range[1]) == offset and same_size and _validator(response) in (None, origin.validator)


def _receive(response: requests.Response, url: str, part: Path) -> None:
    append = response.status_code == requests.codes.partial_content
    offset = part.stat().st_size if append else 0
    length = response.headers.get("Content-Length")
    size = offset + int(length) if length else None
    with part.open("ab" if append else "wb") as file:
        if not append:
            _save_origin(part, Origin(url, _validator(response), size))
        with tqdm(total=size, initial=offset, unit="B", unit_scale=True, desc=part.stem, disable=None) as bar:
            for block in response.raw.stream(_BLOCK_SIZE, decode_content=False):
                file.write(block)
                bar.update(len(block))
    received = part.stat().st_size
    if size is not None and received != size:
        raise urllib3.exceptions.IncompleteRead(received, size - received)


def _validator(response: requests.Response) -> str | None:
    tag = response.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _find_partial(url: str, part: Path) -> tuple[int, Origin | None]:
    try:
        origin = Origin(**json.loads(_origin_path(part).read_text()))
        offset = part.stat().st_size
    except (FileNotFoundError, ValueError, TypeError):
        return 0, None
    can_resume = origin.validator is not None or origin.size is not None
    return (offset, origin) if origin.url == url and can_resume else (0, None)


def _save_origin(part: Path, origin: Origin) -> None:
    with atomic_path(_origin_path(part)) as path:
        path.write_text(json.dumps(asdict(origin)))


def _origin_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")
