"""The limits of a task over all workers: `rate=`, `concurrency=`, `pause_after=` and `pause_for=`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict

from lockwork import words
from lockwork.durations import Duration, milliseconds, parsed
from lockwork.errors import ConfigError
from lockwork.protocol.queue.task_limits import TaskLimits
from lockwork.validation import whole

_AT_ONCE = 1_000_000
_FAILURES = 1000
"""The server remembers the time of each failure."""
_AFTER = re.compile(r"([1-9]\d{0,9})\s+failures?\s+(?:in|within)\s+(\S.*)")


class TaskLimitSettings(TypedDict, total=False):
    """The options of `lw.task` for limits over all workers."""

    rate: str | None
    """Maximum number of the task's jobs that start per period, over all workers: "10/s", "100/m"."""
    concurrency: int | None
    """Maximum number of the task's jobs that run at once, over all workers."""
    pause_after: str | None
    """A circuit breaker: after this many failed attempts in this time, "5 failures in 1m", the task is paused."""
    pause_for: Duration | None
    """Length of the pause; after it, one job runs alone: its success resumes the task, its failure pauses it again."""


def read(given: Mapping[str, Any]) -> TaskLimits:
    """Check the options; raises ConfigError."""
    after, pause = given.get("pause_after"), given.get("pause_for")
    if (after is None) != (pause is None):
        raise ConfigError('a circuit breaker needs both: pause_after="5 failures in 1m" and pause_for="5m"')
    jobs, per_ms = _rate(given.get("rate"))
    at_once = given.get("concurrency")
    failures, window_ms = _failures(after)
    return TaskLimits(
        0 if at_once is None else whole(at_once, "concurrency", 1, _AT_ONCE),
        jobs,
        per_ms,
        failures,
        window_ms,
        0 if pause is None else milliseconds(pause, "pause_for"),
    )


def written(limits: TaskLimits) -> TaskLimitSettings:
    """Return limits as options."""
    given = TaskLimitSettings()
    if limits.jobs:
        given["rate"] = rate_text(limits)
    if limits.at_once:
        given["concurrency"] = limits.at_once
    if limits.failures:
        given["pause_after"] = f"{limits.failures} failures in {limits.window_ms}ms"
        given["pause_for"] = limits.pause_ms / 1000
    return given


def rate_text(limits: TaskLimits) -> str | None:
    """Return the rate as users write it, or None."""
    if not limits.jobs:
        return None
    units = {1000: "s", 60_000: "m", 3_600_000: "h", 86_400_000: "d"}
    return f"{limits.jobs}/{units.get(limits.per_ms) or words.exact(limits.per_ms / 1000).replace(' ', '')}"


def breaker_text(limits: TaskLimits) -> str | None:
    """Describe the circuit breaker, or return None."""
    if not limits.failures:
        return None
    failures = words.several(limits.failures, "failure")
    return f"{failures} in {words.exact(limits.window_ms / 1000)}, for {words.exact(limits.pause_ms / 1000)}"


def _rate(given: object) -> tuple[int, int]:
    if given is None:
        return 0, 0
    jobs, period = parsed(given)
    if period < 1000 or period % 1000:
        raise ConfigError(f"the period of a task's rate must be whole milliseconds, not {given!r}")
    return jobs, period // 1000


def _failures(given: object) -> tuple[int, int]:
    if given is None:
        return 0, 0
    match = _AFTER.fullmatch(given.strip()) if isinstance(given, str) else None
    if match is None or int(match[1]) > _FAILURES:
        raise ConfigError(
            f'pause_after must be 1 to {_FAILURES} failures in a time, such as "5 failures in 1m", not {given!r:.80}'
        )
    return int(match[1]), milliseconds(match[2], "the time of pause_after")
