"""Events in Redis, for services on several machines: a sorted set per user, ordered by time and then by arrival.

All members of a set have the score 0, so that Redis orders them by their bytes: the time and a sequence number, both of fixed length,
then the item and the columns as JSON. Times are exact, unlike scores, which are floats. The keys of an experiment share a hash tag.

Each service records the log end of its snapshots in a key of its own, which expires after 30 days. Only events up to the oldest recorded
log end are deleted, because a service on another machine can get the new days later.
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
"""Adds events; a Redis server that is out of memory refuses the script at its first write, so that all of them are stored or none."""
_TIME, _SEQUENCE = 16, 16  # characters of a member
_MINIMUM = -(2**63)  # of a time
_PAGE = 1000  # keys per step of a scan
LOG_END_EXPIRY = 30 * 24 * 3600
"""Seconds after which the log end of a service that no longer runs is forgotten."""


class RedisEvents:
    """Events in a Redis server; threads, processes and machines may share it.

    An event survives a crash of the server if the server writes each command to its disk before it answers; `durability_warnings`
    says whether it does.

    Args:
        url: ``redis://[USER@]HOST[:PORT][/DATABASE]``, or ``rediss://`` for TLS.
        experiment: ``DATASET.MODEL``, whose events these are.
        service: id of the service that uses the store, under which `prune` records its log end; the same after a restart.
        password: password of the server; None for none.
        timeout: seconds after which the server counts as not reachable.

    Raises:
        EventStoreError: the server is not reachable, the password is wrong, or the database does not exist.
    """

    def __init__(
        self, url: str, *, experiment: str, service: str, password: str | None = None, timeout: float = 2.0
    ) -> None:
        self._url, self._prefix, self._service = url, f"deep-interest:{{{experiment}}}:", service
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
            members: Any = self._client.zrevrangebylex(
                self._key(user), "+", "(" + _last_of(after), start=0, num=limit
            )
        return [_decode(user, member) for member in reversed(members)]

    def prune(self, until: int) -> int:
        """Record the log end of this service, delete the events up to the oldest recorded log end, and return their number."""
        with self._errors():
            self._client.set(self._prefix + "log-end:" + self._service, until, ex=LOG_END_EXPIRY)
            last = "[" + _last_of(self._oldest_log_end())
            deleted = 0
            for keys in self._pages("user:"):
                pipeline = self._client.pipeline(transaction=False)  # one round trip per page
                for key in keys:
                    pipeline.zremrangebylex(key, "-", last)
                deleted += sum(pipeline.execute())
            return deleted

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
        warnings = []
        if settings.get("appendonly") != "yes":
            warnings.append(
                f"{self._url}: the server does not write each command to a file (appendonly {settings.get('appendonly')}); acknowledged "
                "events are lost when it stops. Set appendonly yes and appendfsync always"
            )
        elif settings.get("appendfsync") != "always":
            warnings.append(
                f"{self._url}: the server does not wait for its disk (appendfsync {settings.get('appendfsync')}); acknowledged events of "
                "the last second or more can be lost when its machine crashes. Set appendfsync always"
            )
        if str(settings.get("maxmemory-policy")).startswith("allkeys"):
            warnings.append(
                f"{self._url}: the server deletes events when its memory is full (maxmemory-policy {settings['maxmemory-policy']}). Set "
                "maxmemory-policy noeviction"
            )
        return warnings

    def _oldest_log_end(self) -> int:
        """Return the minimum of the log ends that services have recorded."""
        ends: list[Any] = []
        for keys in self._pages("log-end:"):
            ends += self._client.mget(keys) if keys else []
        return min(int(end) for end in ends if end is not None)  # None: expired since the scan

    def _pages(self, kind: str) -> Iterator[list[bytes]]:
        """Yield the keys of a kind, ``user:`` or ``log-end:``, in pages."""
        cursor, pattern = -1, _escape(self._prefix + kind) + "*"
        while cursor != 0:
            page: Any = self._client.scan(max(cursor, 0), match=pattern, count=_PAGE)
            cursor, keys = page
            yield keys

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
