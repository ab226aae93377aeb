"""Bounds of a queue's history: the number of ended jobs that it keeps, or for how long it keeps them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from lockwork.durations import milliseconds
from lockwork.errors import ConfigError
from lockwork.protocol.keys import base_queue, whole_queue

HistoryBound = str | int | timedelta | None
_COUNT = re.compile(r"(\d+)(k?)", re.ASCII)
_MOST = 100_000_000


@dataclass(frozen=True, slots=True)
class HistoryBounds:
    """The bounds of all queues, as the server keeps them: a number of jobs, or `NUMBERms`; "" is 10,000 jobs."""

    default: str = ""
    by_queue: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)

    @classmethod
    def read(cls, given: HistoryBound | Mapping[str, HistoryBound]) -> HistoryBounds:
        """Check the setting `history`; raises ConfigError."""
        if isinstance(given, Mapping):
            return cls("", {whole_queue(name, "a queue's name in history"): _bound(one) for name, one in given.items()})
        return cls(_bound(given))

    def of(self, queue: str) -> str:
        """Return the bound of a queue, or of a partition."""
        return self.by_queue.get(base_queue(queue), self.default)


def _bound(given: HistoryBound) -> str:
    if given is None or given == "off":
        return "0"
    if isinstance(given, timedelta):
        return f"{milliseconds(given, 'history')}ms"
    count = _COUNT.fullmatch(str(given)) if not isinstance(given, bool) else None
    if count is not None:
        number = int(count[1]) * (1000 if count[2] else 1)
        if number <= _MOST:
            return str(number)
    elif isinstance(given, str):
        try:
            return f"{milliseconds(given, 'history')}ms"
        except ConfigError:
            pass
    raise ConfigError(
        f'history must be how many jobs each queue keeps, such as "10k" or 500, or for how long, such as "1d", or '
        f'"off", not {given!r:.60}'
    )
