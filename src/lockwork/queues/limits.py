"""The limits of a whole queue: rate, concurrency, size."""

from __future__ import annotations

from typing import TypedDict

from msgspec import Struct

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


class QueueLimits(Struct, frozen=True):
    """The limits in force; None: no limit."""

    rate: str | None
    concurrency: int | None
    size: int | None

    @classmethod
    def of(cls, rules: QueueRules) -> QueueLimits:
        """Return the server's rules in the form that users write."""
        return cls(None if rules.rate is None else _text(*rules.rate), rules.concurrency, rules.size)


def changes(limits: LimitSettings) -> dict[str, Argument]:
    """Check the limits, and return them in the server's form; raises ConfigError."""
    check_names(limits, LimitSettings, "a queue has no limit")
    if not limits:
        raise ConfigError("limit() sets rate, concurrency or size: pass one of them, or None to remove it")
    arguments: dict[str, Argument] = {}
    if "rate" in limits:
        arguments["rate"] = "" if limits["rate"] is None else _rate(limits["rate"])
    if "concurrency" in limits:
        arguments["concurrency"] = _whole(limits["concurrency"], "concurrency", 1)
    if "size" in limits:
        arguments["size"] = _whole(limits["size"], "size", 0)
    return arguments


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
