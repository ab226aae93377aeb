"""Text for people: numbers, durations, sizes, ids and values."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from lockwork import words
from lockwork.dashboard.redaction import Hidden
from lockwork.protocol.queue.envelope import Encrypted
from lockwork.protocol.queue.records import ResultOf

_STEERING = (0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Invisible characters that change the direction or order of a text, or end its line."""
_CODES = {code: f"\\u{code:04x}" for code in _STEERING}
_CODES_IN_PROSE = {code: text for code, text in _CODES.items() if code not in (0x200C, 0x200D)}
MASK = "•••"
NOTHING = "\N{EN DASH}"


class Prose(str):
    """A value of a job: joiners of letters and emoji stay in it, while names and ids show them as codes."""

    __slots__ = ()


def visible(text: str) -> str:
    """Replace invisible characters, which make a text resemble another text, with codes, such as `\\u202e`."""
    return text.translate(_CODES_IN_PROSE if isinstance(text, Prose) else _CODES)


def duration(seconds: float | None) -> str:
    """Format a measured duration; None is a dash."""
    return NOTHING if seconds is None else words.duration(seconds)


def size(count: float | None) -> str:
    """Format bytes; None is a dash."""
    return NOTHING if count is None else words.size(count)


def number(count: float | None) -> str:
    """Format a count with separators, a rate with its significant digits; None is a dash."""
    if count is None:
        return NOTHING
    if isinstance(count, int) or count >= 100:
        return f"{count:,.0f}"
    return f"{count:.1f}" if count >= 0.05 or count == 0 else f"{count:.2f}"


def percent(share: float | None) -> str:
    """Format a share of 1; None is a dash."""
    return NOTHING if share is None else f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"


def middle(text: str, most: int = 80) -> str:
    """Shorten a name in the middle, because names often differ only at the end."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[head + 1 - most :]}"


def cut(text: str, most: int = 120) -> str:
    """Cut a text to one line of limited length."""
    line = " ".join(text.split())
    excerpt = line if len(line) <= most else f"{line[: most - 1]}…"
    return Prose(excerpt) if isinstance(text, Prose) else excerpt


def value(thing: object) -> str:
    """Format a value as JSON in one line; other types appear as in Python."""
    if isinstance(thing, Hidden):
        return MASK
    if isinstance(thing, ResultOf | Encrypted):
        return thing
    try:
        return json.dumps(thing, ensure_ascii=False, default=_other)
    except (TypeError, ValueError):
        return repr(thing)


def call(args: tuple[object, ...] | list[object] | None, kwargs: dict[str, object] | None) -> str:
    """Format arguments as in a call, in one line."""
    if args is None and kwargs is None:
        return "…"
    return ", ".join([*map(value, args or ()), *(f"{name}={value(each)}" for name, each in (kwargs or {}).items())])


def commands(text: str) -> list[tuple[str, bool]]:
    """Split a text at its backticks: text between two of them is a command."""
    return [(part, bool(at % 2)) for at, part in enumerate(text.split("`")) if part]


def refusal(error: Exception) -> str:
    """Explain in one sentence why an action failed."""
    if "does not let this user" in str(error):
        return "The server user of this dashboard may only read. Connect as a user with the role operator."
    return str(error)


def iso(moment: datetime) -> str:
    """Format a moment for the `datetime` attribute of `time`, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(moment: datetime) -> str:
    """Format a moment for a reader without JavaScript, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def relative(moment: datetime) -> str:
    """Format a moment relative to now, such as "2 min 5 s ago" or "in 3 h"; app.js then updates it."""
    away = (moment - datetime.now(UTC)).total_seconds()
    return "now" if abs(away) < 1 else f"in {words.rough_age(away)}" if away > 0 else f"{words.rough_age(-away)} ago"


def elapsed(moment: datetime) -> str:
    """Format the time since a moment, such as "2 min 5 s"; app.js then updates it."""
    return words.rough_age((datetime.now(UTC) - moment).total_seconds())


def ago(seconds: float) -> datetime:
    """Return the moment `seconds` before now."""
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() - seconds, UTC)


def _other(thing: Any) -> Any:
    if isinstance(thing, Hidden):
        return MASK
    if isinstance(thing, bytes):
        return repr(thing)
    if isinstance(thing, set | frozenset | tuple):
        return list(thing)
    return str(thing)
