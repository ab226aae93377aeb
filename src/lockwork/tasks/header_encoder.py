"""The header of a job's record: its priority, attempts, key, group and unique name."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from typing import Any

from msgspec import Struct, field

from lockwork.durations import parsed
from lockwork.errors import ConfigError
from lockwork.naming import template
from lockwork.protocol.names import checked_name, stored
from lockwork.protocol.queue import record_header
from lockwork.protocol.queue.record_header import Budget, JobLimits
from lockwork.validation import whole

_MOST_AT_ONCE = 1_000_000


class JobGrouping(Struct, frozen=True):
    """The key and group of a task's jobs, which may have placeholders for arguments, and the group's limits."""

    key: str | None = None
    group: str | None = None
    limits: JobLimits = field(default_factory=JobLimits)

    @classmethod
    def read(cls, key: object, group: object, at_once: object, rate: object) -> JobGrouping:
        """Check the options; raises ConfigError."""
        if group is None and (at_once is not None or rate is not None):
            raise ConfigError("group_concurrency and group_rate are limits of a group, so they need group=...")
        return cls(
            None if key is None else text(key, "a job's key"),
            None if group is None else text(group, "a job's group"),
            JobLimits(_at_once(at_once), *_rate(rate)),
        )


class HeaderEncoder:
    """Makes the record headers of one task.

    without: its injected parameters. absolute: store a `retry_until` as a point in time, because the id of the job has
    no time, or has the time of another call.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        priority: int,
        budget: Budget,
        grouping: JobGrouping,
        without: frozenset[str] = frozenset(),
        mark: Callable[..., str] | None = None,
        *,
        hidden: bool = False,
        retry_until_ms: int = 0,
        absolute: bool = False,
    ) -> None:
        self._hidden = hidden
        self._retry_until_ms = retry_until_ms
        self._absolute = absolute and retry_until_ms > 0
        self._tracked_ms = 0
        self._priority = priority
        self._budget = budget
        self._limits = grouping.limits
        self._key = naming(grouping.key, "a job's key", function, without)
        self._group = naming(grouping.group, "a job's group", function, without)
        self._mark = mark
        plain = grouping.key is None and grouping.group is None and mark is None and not self._absolute
        self.plain: bytes | None = self._head() if plain else None
        """The header of every record, if the arguments do not change it."""

    def tracking(self, tracked_ms: int) -> HeaderEncoder:
        """Return an encoder for tracked jobs, whose ends are kept for this time."""
        encoder: HeaderEncoder = copy(self)
        encoder._tracked_ms = tracked_ms
        encoder.plain = None if self.plain is None else encoder._head()
        return encoder

    def of(self, args: Any, kwargs: dict[str, Any]) -> bytes:
        """Return the header of one call's record; raises ConfigError if an argument cannot be part of a name."""
        key, group = self._key(*args, **kwargs), self._group(*args, **kwargs)
        unique = self._mark(*args, **kwargs) if self._mark else ""
        return self._head(key, group, unique)

    def _head(self, key: str = "", group: str = "", unique: str = "") -> bytes:
        attempts, deliveries = self._budget
        return record_header.head(
            self._priority,
            attempts,
            key,
            group,
            self._limits,
            unique,
            deliveries,
            hidden=self._hidden,
            tracked_ms=self._tracked_ms,
            retry_until_ms=self._deadline(),
        )

    def _deadline(self) -> int:
        """Return the job's `retry_until`."""
        ms = self._retry_until_ms
        return -int(time.time() * 1000) - ms if self._absolute else ms


def naming(name: str | None, what: str, function: Callable[..., Any], without: frozenset[str]) -> Callable[..., str]:
    """Return a function that makes the stored name of a call; `without`: parameters that no call has."""
    if name is None:
        return lambda *_, **__: ""
    name_template = template(name, what)
    if name_template is None:
        always = stored(name)
        return lambda *_, **__: always
    builder = name_template.bind(function, without)
    return lambda *args, **kwargs: stored(builder(*args, **kwargs))


def text(name: object, what: str) -> str:
    """Return a name, or its template; raises ConfigError."""
    template(name, what)
    return checked_name(name, what)


def _at_once(given: object) -> int:
    return 0 if given is None else whole(given, "group_concurrency", 1, _MOST_AT_ONCE)


def _rate(given: object) -> tuple[int, int]:
    if given is None:
        return 0, 0
    units, period = parsed(given)
    if period < 1000 or period % 1000:
        raise ConfigError(f"group_rate's period must be whole milliseconds, not {given!r}")
    return units, period // 1000
