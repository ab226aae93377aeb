"""Checked options that tasks and single jobs share, and how a job carries its own.

The options of a single job are the fourth element of its body; the body of a plain job has three at most.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lockwork import backoff, codecs, words
from lockwork.backoff import Exponential, Policy
from lockwork.durations import Duration, milliseconds, seconds
from lockwork.errors import ConfigError, PayloadTooLarge
from lockwork.hooks import Again
from lockwork.protocol.queue import record_header, records
from lockwork.protocol.queue.record_header import Budget
from lockwork.validation import whole

ErrorClasses = type[BaseException] | tuple[type[BaseException], ...]
_MOST = 1000
_REPLICAS = 100
_FAR = 366 * 86_400_000


class RunOptions(Struct, frozen=True):
    """Options for running, retrying and storing the result of a job; durations in seconds."""

    retries: int = 3
    backoff: Policy = 1.0
    timeout: float | None = None
    hard_timeout: float | None = None
    retry_on: tuple[str, ...] | None = None
    """Names of the exception classes that cause a retry; None: all."""
    give_up_on: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    result_ms: int = 0
    """Time that the result is stored, in ms; 0: the app's `result_ttl`."""
    max_deliveries: int | None = None
    retry_until_ms: int | None = None
    """Time after which no attempt begins: ms from the enqueue on, or -ms since 1970."""
    last_start: float | None = None
    """In a worker, the same for one job, in seconds by the clock of its process (`runtime.clock.now`)."""

    def again(self, error: BaseException) -> bool:
        """Return True if a job that failed with this error is retried.

        An exception group is retried if it is no error of `give_up_on`, contains none, and `retry_on` has the group or
        each of its errors.
        """
        if self.retry_on is None and not self.give_up_on:
            return True
        return not any(_is_one_of(each, self.give_up_on) for each in _parts(error)) and self._may_retry(error)

    def _may_retry(self, error: BaseException) -> bool:
        if self.retry_on is None:
            return True
        unread = [error]
        while unread:
            each = unread.pop()
            if isinstance(each, Again) or _is_one_of(each, self.retry_on):
                continue  # a call of `retry` in a task group does not prevent a retry
            if not isinstance(each, BaseExceptionGroup):
                return False
            unread += each.exceptions
        return True

    @property
    def budget(self) -> Budget:
        """Attempts and deliveries that the job may have."""
        return Budget(self.retries + 1, self.max_deliveries or 0)


Options = TypeVar("Options", bound=RunOptions)


def read(settings: Mapping[str, Any], options: Options) -> Options:
    """Return the options with the given changes, checked; raises ConfigError."""
    changes = _retries(settings)
    for name in ("timeout", "hard_timeout"):
        if name in settings:
            changes[name] = None if settings[name] is None else seconds(settings[name], name)
    if "tags" in settings:
        changes["tags"] = _tags(settings["tags"])
    if "result_ttl" in settings:
        result_ttl = settings["result_ttl"]
        changes["result_ms"] = 0 if result_ttl is None else milliseconds(result_ttl, "result_ttl")
    return _with_limits_in_order(replace(options, **changes))


def _retries(settings: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if "retries" in settings:
        changes["retries"] = whole(settings["retries"], "retries", 0, _MOST)
    if "max_deliveries" in settings:
        most = settings["max_deliveries"]
        changes["max_deliveries"] = None if most is None else whole(most, "max_deliveries", 1, _MOST)
    if "retry_until" in settings:
        changes["retry_until_ms"] = limit(settings["retry_until"], "retry_until")
    if "backoff" in settings:
        changes["backoff"] = backoff.read(settings["backoff"])
    if "retry_on" in settings:
        changes["retry_on"] = None if settings["retry_on"] is None else _classes(settings["retry_on"], "retry_on")
    if "give_up_on" in settings:
        changes["give_up_on"] = _classes(settings["give_up_on"], "give_up_on")
    return changes


def replicas(settings: Mapping[str, Any]) -> int:
    """Return how many replicas must have a job; 0 unless given. Raises ConfigError."""
    return whole(settings.get("replicas", 0), "replicas", 0, _REPLICAS)


def moment(settings: Mapping[str, Any]) -> int | None:
    """Return when a job is due: ms from now on, or -ms since 1970; None unless given. Raises ConfigError."""
    if "at" in settings and "delay" in settings:
        raise ConfigError("pass delay or at, not both")
    if "delay" in settings:
        return milliseconds(settings["delay"], "delay", zero=True)
    if "at" in settings:
        return at(settings["at"], "at")
    return None


def limit(value: Duration | datetime | None, what: str) -> int | None:
    """Return a limit of a job's time, in the form of `moment`; raises ConfigError."""
    if value is None:
        return None
    return at(value, what) if isinstance(value, datetime) else milliseconds(value, what)


def check_order(due: int, limit: int | None, what: str) -> None:
    """Raise ConfigError for a job that could never start; a moment and a duration cannot be compared yet."""
    if due and limit is not None and (due < 0) == (limit < 0) and abs(limit) <= abs(due):
        both = f", since its delay and its {what} both count from when it is enqueued" if due > 0 else ""
        would = "expire" if what == "expires" else "be dead"
        raise ConfigError(f"the job would {would} before it may start{both}: pass a later {what}, or None")


def at(value: object, what: str) -> int:
    """Return a datetime with a time zone as -ms since 1970; raises ConfigError."""
    if not isinstance(value, datetime):
        raise ConfigError(f"{what} must be a datetime, not {value!r}")
    if value.utcoffset() is None:
        raise ConfigError(
            f"{what} must be a datetime with a zone, such as datetime.now(UTC), not {value!r}: "
            "machines may disagree about what it means"
        )
    milliseconds = int(value.timestamp() * 1000)
    if milliseconds <= 0 or milliseconds > time.time() * 1000 + _FAR:
        raise ConfigError(f"{what} must be after 1970 and at most 366 days from now, not {value!r}")
    return -milliseconds


def sent(settings: Mapping[str, Any], options: RunOptions, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options for a job's record, added to `known`; raises ConfigError for a function as backoff."""
    extra: dict[str, Any] = dict(known or {})
    if "backoff" in settings:
        extra.pop("pauses", None)
        policy = options.backoff
        if isinstance(policy, Exponential):
            extra["backoff"] = [policy.base, policy.factor, policy.longest, policy.jitter]
        elif isinstance(policy, tuple):
            extra["pauses"] = policy
        elif isinstance(policy, float):
            extra["backoff"] = policy
        else:
            raise ConfigError("a backoff function cannot travel with a job: set it for the task")
    for name in ("timeout", "hard_timeout", "retry_on", "give_up_on"):
        if name in settings:
            extra[name] = getattr(options, name)
    if options.tags or "tags" in settings:
        extra["tags"] = options.tags
    if "result_ttl" in settings:
        extra["result_ms"] = options.result_ms
    return extra


def carried(extra: object, options: Options) -> Options:
    """Return the task's `options` with the changes in a job's record; raises ValueError if they cannot be read."""
    if not isinstance(extra, dict):
        raise ValueError("its options are not an object")  # noqa: TRY004 - stored data has no type yet
    try:
        changes = {name: tuple(value) if isinstance(value, list) else value for name, value in extra.items()}
        pauses = changes.pop("pauses", None)
        backoff = changes.get("backoff")
        if pauses is not None:
            changes["backoff"] = tuple(map(float, pauses))
        elif isinstance(backoff, tuple):
            changes["backoff"] = Exponential(*backoff)
        elif backoff is not None:
            changes["backoff"] = float(backoff)
        overrides: dict[str, Any] = {name: value for name, value in changes.items() if name in _CARRIED}
        return replace(options, **overrides)
    except (TypeError, ValueError, ConfigError) as error:
        raise ValueError(f"its options cannot be read: {error}") from None


def with_headers(record: bytes, headers: Mapping[str, str], cap: int) -> bytes:
    """Return the record with headers for its job; raises ConfigError, PayloadTooLarge when its body is over `cap`."""
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigError(f"a job's headers are texts by name, not {name!r:.60}: {value!r:.60}")
    return _with(record, {"headers": headers}, "headers", cap)


def with_stock(record: bytes, stock: str, cap: int) -> bytes:
    """Return the record of a job that a stock enqueues; raises PayloadTooLarge when its body is over `cap`."""
    return _with(record, {"stock": stock}, "stock", cap)


def with_enqueued(record: bytes, cap: int) -> bytes:
    """Return the record with the time of its enqueue, for a job whose id has none; raises PayloadTooLarge."""
    return _with(record, {records.ENQUEUED: time.time_ns() // 1000}, "time", cap)


def _with(record: bytes, facts: Mapping[str, object], what: str, cap: int) -> bytes:
    at = record.index(b";") + 1
    parts = msgspec.json.decode(record[at:], type=list[msgspec.Raw])
    parts += [msgspec.Raw(b"{}")] * (4 - len(parts))
    extra = {**codecs.decode(bytes(parts[3])), **facts}
    parts[3] = msgspec.Raw(msgspec.json.encode(extra))
    body = msgspec.json.encode(parts)
    if len(body) > cap:
        raise PayloadTooLarge(f"a job would be {len(body)} bytes with its {what}, and the limit is {cap}")
    return record[:at] + body


def headers(record: bytes) -> dict[str, str]:
    """Return the headers of a job; none when they cannot be read."""
    return _added(record).headers


def tags(record: bytes) -> tuple[str, ...]:
    """Return the tags of a job; none when they cannot be read."""
    return _added(record).tags


def stock(record: bytes) -> str | None:
    """Return the name of the stock that enqueued a job; None when it cannot be read."""
    return _added(record).stock


class _Added(msgspec.Struct):
    """Fields that a job carries beside its options."""

    headers: dict[str, str] = {}
    stock: str | None = None
    tags: tuple[str, ...] = ()


def _added(record: bytes) -> _Added:
    try:
        parts = msgspec.json.decode(record_header.body(record), type=list[msgspec.Raw])
        return msgspec.json.decode(parts[3], type=_Added) if len(parts) > 3 else _Added()
    except (ValueError, RecursionError):
        return _Added()


_CARRIED = ("backoff", "timeout", "hard_timeout", "retry_on", "give_up_on", "tags", "result_ms")


def _with_limits_in_order(options: Options) -> Options:
    soft, hard = options.timeout, options.hard_timeout
    if soft is not None and hard is not None and hard < soft:
        raise ConfigError(f"hard_timeout ({words.exact(hard)}) must not be shorter than timeout ({words.exact(soft)})")
    return options


def _parts(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and, if it is an exception group, all errors nested in it."""
    unread = [error]
    while unread:
        each = unread.pop()
        yield each
        if isinstance(each, BaseExceptionGroup):
            unread += each.exceptions


def _is_one_of(error: BaseException, names: tuple[str, ...]) -> bool:
    return any(_name(kind) in names for kind in type(error).__mro__)


@lru_cache(1000)
def _name(known: type) -> str:
    return f"{known.__module__}.{known.__qualname__}"


def _classes(errors: ErrorClasses | Sequence[type[BaseException]], what: str) -> tuple[str, ...]:
    classes = tuple(errors) if isinstance(errors, list | tuple) else (errors,)
    for one in classes:
        if not isinstance(one, type) or not issubclass(one, BaseException):
            raise ConfigError(f"{what} must be exception classes, not {one!r}")
    return tuple(_name(one) for one in classes if isinstance(one, type))


def _tags(tags: object) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, list | tuple | set | frozenset):
        raise ConfigError(f"tags must be a list of texts, not {tags!r}")
    for tag in tags:
        if not isinstance(tag, str) or not 1 <= len(tag) <= 200:
            raise ConfigError(f"a tag must be text of 1 to 200 characters, not {tag!r}")
    return tuple(tags)
