"""Values as text for a screen: names, durations, times, sizes, states."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockwork import words
from lockwork.protocol.queue.envelope import ENCRYPTED, Encrypted
from lockwork.protocol.queue.records import ResultOf

if TYPE_CHECKING:  # most commands, such as `lockwork worker`, print plain text
    from rich.text import Text

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
    "skipped": "color(244)",
    "unknown": "color(244)",
}
"""Colors that are legible on black and on white; the word is always beside them."""
_FAINT = "color(244)"
_BREAK = re.compile(r"\s*[\r\n\t]\s*")


def printable(text: str) -> str:
    """Make one line of a text, without control characters: any program may write to the server."""
    return "".join(sign if sign.isprintable() else "?" for sign in _BREAK.sub(" ", text))


def unfolded(text: str) -> Text:
    """A line that is not folded at the width of the screen, as of a traceback."""
    from rich.text import Text  # noqa: PLC0415 - see above

    return Text(printable(text), no_wrap=True, overflow="ignore")


def duration(seconds: float | None) -> str:
    """Format a measured duration; empty if it is unknown, and 0 if a clock was set back."""
    return "" if seconds is None else words.duration(max(0.0, seconds))


def ago(then: datetime | None, now: datetime | None = None) -> str:
    """Return how long ago a time was; empty if it is unknown."""
    return "" if then is None else words.age(((now or datetime.now(UTC)) - then).total_seconds())


def rough_age(then: datetime) -> str:
    """Return the time since a moment, in at most 10 characters."""
    return words.rough_age((datetime.now(UTC) - then).total_seconds())


def until(then: datetime | None, now: datetime | None = None) -> str:
    """Return the time from now: "in 5.0 s", or "now"."""
    if then is None:
        return ""
    seconds = (then - (now or datetime.now(UTC))).total_seconds()
    return f"in {words.time_left(seconds)}" if seconds > 0 else "now"


def moment(then: datetime | None) -> str:
    """A time of day in the zone of this machine; empty if it is not known."""
    return "" if then is None else then.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def size(count: int | None) -> str:
    """Format a number of bytes; empty if it is unknown."""
    return "" if count is None else words.size(count)


def value(result: Any) -> str:
    """A value of a job as JSON, in one line; a result that is not known yet by the id of its job."""
    if isinstance(result, ResultOf | Encrypted):
        return printable(result)
    return printable(json.dumps(result, ensure_ascii=False, default=str))


def arguments(args: Any, kwargs: Any, *, encrypted: bool = False) -> str:
    """The arguments of a call as JSON, separated by commas; "..." where they were not read."""
    if encrypted:
        return ENCRYPTED
    if args is None and kwargs is None:
        return "..."
    return ", ".join(
        [*(value(each) for each in args or ()), *(f"{printable(k)}={value(v)}" for k, v in (kwargs or {}).items())]
    )


def count(number: int, word: str = "") -> Text:
    """Format a number in a table, in the color of the state `word`; a zero is faint, to emphasize other numbers."""
    from rich.text import Text  # noqa: PLC0415 - see above

    return Text(f"{number:,}", style=STYLES.get(word, "") if number else _FAINT)


EMPTY = "(empty)"
"""Shown instead of an empty name."""
HIDDEN = "(hidden)"
"""Shown instead of the arguments of a task with `hide_arguments`."""


def state(word: str, text: str = "") -> Text:
    """Return a state in its color; `text` replaces the word, and the color stays."""
    from rich.text import Text  # noqa: PLC0415 - see above

    return Text(text or word, style=STYLES.get(word, ""))
