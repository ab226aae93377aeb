"""Values as text for a screen: names, durations, times, sizes, states."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from math import ceil
from typing import Any

from rich.text import Text

from lockwork.protocol.queue.records import ResultOf

STYLES: dict[str, str] = {
    "running": "color(33)",
    "busy": "color(33)",
    "succeeded": "color(28)",
    "open": "color(28)",
    "retrying": "color(166)",
    "paused": "color(166)",
    "quiet": "color(166)",
    "stopping": "color(166)",
    "warning": "color(166)",
    "dead": "color(160)",
    "failed": "color(160)",
    "lost": "color(160)",
    "serious": "color(160)",
    "scheduled": "color(244)",
    "blocked": "color(244)",
    "cancelled": "color(244)",
    "expired": "color(244)",
    "unknown": "color(244)",
}
"""Colors that are legible on black and on white; the word is always beside them."""
_FAINT = "color(244)"
_BREAK = re.compile(r"\s*[\r\n\t]\s*")
_SIZES = ("B", "kB", "MB", "GB", "TB")


def printable(text: str) -> str:
    """Make one line of a text, without control characters: any program may write to the server."""
    return "".join(sign if sign.isprintable() else "?" for sign in _BREAK.sub(" ", text))


def unfolded(text: str) -> Text:
    """A line that is not folded at the width of the screen, as of a traceback."""
    return Text(printable(text), no_wrap=True, overflow="ignore")


def time_left(seconds: float) -> str:
    """The time until an end, as people read it: 0 only when it is over."""
    return lasting(ceil(round(seconds * 1000) / 100) / 10)


def lasting(seconds: float) -> str:
    """A duration as people read it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} m" if minutes < 2880 else f"{minutes // 1440} d"


def brief(seconds: float | None) -> str:
    """A measured duration, with milliseconds below one second; empty if it is not known."""
    if seconds is None:
        return ""
    if 0 < seconds < 0.0005:
        return "<1 ms"
    return f"{seconds * 1000:.0f} ms" if 0 <= seconds < 0.9995 else lasting(max(0.0, seconds))


def ago(then: datetime | None, now: datetime | None = None) -> str:
    """Return how long ago a time was; empty if it is unknown."""
    return "" if then is None else lasting(max(0.0, ((now or datetime.now(UTC)) - then).total_seconds()))


def until(then: datetime | None, now: datetime | None = None) -> str:
    """Return the time from now: "in 5.0 s", or "now"."""
    if then is None:
        return ""
    seconds = (then - (now or datetime.now(UTC))).total_seconds()
    return f"in {time_left(seconds)}" if seconds > 0 else "now"


def moment(then: datetime | None) -> str:
    """A time of day in the zone of this machine; empty if it is not known."""
    return "" if then is None else then.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def sized(bytes: int | None) -> str:
    """A number of bytes: "1.2 kB"; empty if it is not known."""
    if bytes is None:
        return ""
    number, unit = float(bytes), 0
    while number >= 999.95 and unit < len(_SIZES) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.1f} {_SIZES[unit]}" if unit else f"{bytes} B"


def value(given: Any) -> str:
    """A value of a job as JSON, in one line; a result that is not known yet by the id of its job."""
    if isinstance(given, ResultOf):
        return printable(given)
    return printable(json.dumps(given, ensure_ascii=False, default=str))


def arguments(args: Any, kwargs: Any) -> str:
    """The arguments of a call as JSON, separated by commas; "..." where they were not read."""
    if args is None and kwargs is None:
        return "..."
    return ", ".join(
        [*(value(each) for each in args or ()), *(f"{printable(k)}={value(v)}" for k, v in (kwargs or {}).items())]
    )


def count(number: int, word: str = "") -> Text:
    """Format a number in a table, in the color of the state `word`; a zero is faint, to emphasize other numbers."""
    return Text(f"{number:,}", style=STYLES.get(word, "") if number else _FAINT)


EMPTY = "(empty)"
"""Shown instead of an empty name."""
HIDDEN = "(hidden)"
"""Shown instead of the arguments of a task with `hide_arguments`."""


def state(word: str, text: str = "") -> Text:
    """Return a state in its color; `text` replaces the word, and the color stays."""
    return Text(text or word, style=STYLES.get(word, ""))
