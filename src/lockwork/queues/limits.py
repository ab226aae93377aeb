"""The limits of a whole queue: rate, concurrency, size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from lockwork.config import check_names
from lockwork.durations import parsed
from lockwork.errors import ConfigError
from lockwork.protocol.effects import Argument
from lockwork.protocol.queue.limits import QueueRules

MOST = 1_000_000_000
_UNITS = {1000: "s", 60_000: "m", 3_600_000: "h", 86_400_000: "d"}


class LimitSettings(TypedDict, total=False):
    """The options of `queue.limit`; None removes a limit, and an omitted limit does not change."""

    rate: str | None
    """Maximum number of jobs that start per period, over all workers: "100/s", "5/m", "10/30s"."""
    concurrency: int | None
    """Maximum number of jobs that run at once, over all workers."""
    size: int | None
    """Maximum number of waiting jobs, ready or scheduled; a further enqueue raises QueueFull. 0 accepts no jobs."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits in force; None: no limit."""

    rate: str | None
    concurrency: int | None
    size: int | None

    @classmethod
    def of(cls, rules: QueueRules) -> QueueLimits:
        """Return the server's rules in the form that users write."""
        return cls(None if rules.rate is None else _text(*rules.rate), rules.concurrency, rules.size)


def changes(given: LimitSettings) -> dict[str, Argument]:
    """Check the limits, and return them in the server's form; raises ConfigError."""
    check_names(given, LimitSettings, "a queue has no limit")
    if not given:
        raise ConfigError("limit() sets rate, concurrency or size: pass one of them, or None to remove it")
    found: dict[str, Argument] = {}
    if "rate" in given:
        found["rate"] = "" if given["rate"] is None else _rate(given["rate"])
    if "concurrency" in given:
        found["concurrency"] = _whole(given["concurrency"], "concurrency", 1)
    if "size" in given:
        found["size"] = _whole(given["size"], "size", 0)
    return found


def _rate(text: object) -> str:
    jobs, period = parsed(text)
    if period < 1000 or period % 1000:
        raise ConfigError(f"the period of a queue's rate must be whole milliseconds, not {text!r}")
    return f"{jobs}/{period // 1000}"


def _whole(value: object, what: str, least: int) -> Argument:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        hint = "; to start no jobs, call pause()" if value == 0 else ""
        raise ConfigError(f"{what} must be a whole number from {least} to {MOST:,}, not {value!r}{hint}")
    return value


def _text(jobs: int, per_ms: int) -> str:
    if per_ms in _UNITS:
        return f"{jobs}/{_UNITS[per_ms]}"
    return f"{jobs}/{per_ms}ms" if per_ms % 1000 else f"{jobs}/{per_ms // 1000}s"
