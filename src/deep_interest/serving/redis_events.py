"""Events in Redis, for services on several machines: a sorted set per user, ordered by time and then by arrival.

All members of a set have the score 0, so that Redis orders them by their bytes: the time and a sequence number, both of fixed length,
then the item and the columns as JSON. Times are exact, unlike scores, which are floats. The keys of an experiment share a hash tag.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from deep_interest.serving.events import Event, EventStoreError, Id

_ADD = """
local last = redis.call('INCRBY', KEYS[1], #ARGV / 2)
local first = last - #ARGV / 2
for i = 1, #ARGV / 2 do
    redis.call('ZADD', KEYS[i + 1], 0, ARGV[2 * i - 1] .. string.format('%016d', first + i) .. ARGV[2 * i])
end
"""
"""Adds events; Redis refuses a script without memory at its first write, so that all of them are stored or none."""
_TIME, _SEQUENCE = 16, 16  # characters of a member
_MINIMUM = -(2**63)  # of a time


class RedisEvents:
    """Events in a Redis server; threads, processes and machines may share it.

    An event survives the end of the server if the server writes each command to its disk before it answers; `durability_warnings`
    says whether it does.

    Args:
        url: ``redis://[USER@]HOST[:PORT][/DATABASE]``, or ``rediss://`` for TLS.
        experiment: ``DATASET.MODEL``, whose events these are.
        password: password of the server; None for none.
        timeout: seconds after which the server counts as not reachable.

    Raises:
        EventStoreError: the server is not reachable, the password is wrong, or there is no such database.
    """

    def __init__(
        self, url: str, *, experiment: str, password: str | None = None, timeout: float = 2.0
    ) -> None:
        self._url, self._prefix = url, f"deep-interest:{{{experiment}}}:"
        self._client: redis.Redis = redis.Redis.from_url(
            url, password=password, socket_timeout=timeout, socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),  # an event that is sent twice would be stored twice
        )  # fmt: skip
        self._add: Any = self._client.register_script(_ADD)
        with self._errors():
            self._client.ping()

    def add(self, events: Sequence[Event]) -> None:
        """Store events in one step. After a lost connection or a timeout they may have been stored.

        Raises:
            EventStoreError: the server does not answer, or has no memory.
        """
        keys, arguments = [self._prefix + "sequence"], []
        for event in events:
            keys.append(self._key(event.user))
            arguments += [_encode_time(event.time), json.dumps([event.item, dict(event.columns)])]
        if events:
            with self._errors():
                self._add(keys=keys, args=arguments)

    def of_user(self, user: Id, *, after: int, limit: int) -> list[Event]:
        """Return a user's newest events later than ``after``, at most ``limit``, from oldest to newest."""
        with self._errors():
            found: Any = self._client.zrevrangebylex(
                self._key(user), "+", "(" + _last_of(after), start=0, num=limit
            )
        return [_decode(user, member) for member in reversed(found)]

    def prune(self, until: int) -> int:
        """Delete the events up to a time."""
        with self._errors():
            keys = self._client.scan_iter(match=_escape(self._prefix) + "user:*", count=1000)
            return sum(int(self._client.zremrangebylex(key, "-", "[" + _last_of(until))) for key in keys)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def durability_warnings(self) -> list[str]:
        """Return why an acknowledged event could be lost with the configuration of the server."""
        try:
            settings: Any = {}
            for name in ("appendonly", "appendfsync", "maxmemory-policy"):
                settings |= self._client.config_get(name)
        except redis.ResponseError as error:
            return [
                f"{self._url}: the server does not show its configuration ({error}); acknowledged events survive a crash only with "
                "appendonly yes and appendfsync always"
            ]
        except redis.RedisError as error:
            raise self._error(error) from error
        found = []
        if settings.get("appendonly") != "yes":
            found.append(
                f"{self._url}: the server does not write each command to a file (appendonly {settings.get('appendonly')}); acknowledged "
                "events are lost when it ends. Set appendonly yes and appendfsync always"
            )
        elif settings.get("appendfsync") != "always":
            found.append(
                f"{self._url}: the server does not wait for its disk (appendfsync {settings.get('appendfsync')}); acknowledged events of "
                "the last second or more can be lost when its machine ends. Set appendfsync always"
            )
        if str(settings.get("maxmemory-policy")).startswith("allkeys"):
            found.append(
                f"{self._url}: the server deletes events when its memory is full (maxmemory-policy {settings['maxmemory-policy']}). Set "
                "maxmemory-policy noeviction"
            )
        return found

    def _key(self, user: Id) -> str:
        return f"{self._prefix}user:{json.dumps(user)}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except redis.RedisError as error:
            raise self._error(error) from error

    def _error(self, error: redis.RedisError) -> EventStoreError:
        return EventStoreError(f"{self._url}: {_explanation(error)}")


def _explanation(error: redis.RedisError) -> str:
    """Return what is wrong and what to do."""
    message = str(error)
    if isinstance(error, redis.AuthenticationError):  # also a `ConnectionError`
        return f"the Redis server refuses the user or the password ({message}); correct --events-password-file or DEEP_INTEREST_EVENTS_PASSWORD"
    if isinstance(error, redis.BusyLoadingError):
        return "the Redis server is still loading its data; try again later"
    if isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return f"the Redis server cannot be reached ({message}); start it, or correct --events"
    if "DB index" in message:
        return f"the Redis server has no such database ({message}); correct the number at the end of --events"
    if "OOM" in message:
        return "the memory of the Redis server is full (OOM command not allowed); raise its maxmemory, or delete other data"
    return f"the Redis server refuses a command ({message})"


def _encode_time(time: int) -> str:
    """Return a time as text that sorts as the number does."""
    return f"{time - _MINIMUM:0{_TIME}x}"


def _last_of(time: int) -> str:
    """Return a text after all members of a time and before those of the next."""
    return _encode_time(time) + "~"


def _decode(user: Id, member: bytes) -> Event:
    item, columns = json.loads(member[_TIME + _SEQUENCE :])
    return Event(user, item, int(member[:_TIME], 16) + _MINIMUM, columns)


def _escape(text: str) -> str:
    r"""Escape the special characters of a pattern of keys: ``*?[]\``."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)
