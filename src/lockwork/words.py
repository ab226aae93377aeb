"""Words for people: durations, sizes, counts and short ids, with one spelling in errors, logs, commands and pages.

Every layer may import it. The dashboard's script (static/app.js) updates ages in the browser: its `age` formats them as
`rough_age` does.
"""

from __future__ import annotations

from math import ceil

from lockwork.ids import is_own, node_of, slot_of

_SIZES = ("B", "kB", "MB", "GB", "TB")
_UNITS = (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
"""A unit and its seconds, then the next smaller unit and its seconds."""
_SHORT = 20
"""Maximum length of a short id."""
_END = 11
"""Length of the end of an id that a short id keeps."""


def duration(seconds: float) -> str:
    """Format a measured duration: "<1 ms", "840 ms", "2.1 s", "3 min 4 s", "5 h 12 min" or "3 d 4 h"."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if 0 < seconds < 0.0005:
        return "<1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 59.95 else _two_units(round(seconds))


def latency(seconds: float) -> str:
    """Format the time of a call to the server, which is often less than a millisecond: "0.3 ms"."""
    return "<0.1 ms" if seconds < 0.0001 else f"{seconds * 1000:.1f} ms"


def age(seconds: float) -> str:
    """Format the time since a moment, rounded down to a tenth of a second or a whole one: "0.1 s", "3 min 4 s"."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 59.95 else _two_units(max(60, int(seconds)))


def rough_age(seconds: float) -> str:
    """Format an age that a page updates: "4 s", "3 min 4 s", "12 min". From ten of a unit on, one unit is enough."""
    whole = max(0, int(seconds))
    return f"{whole} s" if whole < 60 else _two_units(whole, most=9)


def time_left(seconds: float) -> str:
    """Format the time until an end, rounded up: "0.0 s" only after it."""
    return age(ceil(round(seconds * 1000) / 100) / 10)


def exact(seconds: float | None) -> str:
    """Format a limit that a user has set, with all its digits: "0.25 s", "1 min 30.5 s", "1 h"; None is "no limit"."""
    if seconds is None:
        return "no limit"
    parts = []
    seconds = seconds if seconds < 60 else round(seconds, 3)
    for unit, length, _, _ in _UNITS:
        if seconds >= length:
            parts.append(f"{seconds // length:.0f} {unit}")
            seconds %= length
    return " ".join(parts if parts and not seconds else [*parts, f"{seconds:g} s"])


def _two_units(seconds: int, most: int | None = None) -> str:
    """Format at least a minute by its largest unit and the next one; without the next one above `most`, or if 0."""
    for unit, length, smaller, part in _UNITS:
        if seconds >= length:
            first, rest = seconds // length, seconds % length // part
            with_rest = rest and (most is None or first <= most)
            return f"{first:,} {unit} {rest} {smaller}" if with_rest else f"{first:,} {unit}"
    raise AssertionError


def size(count: float) -> str:
    """Format bytes: "512 B", "1.2 kB", "3 MB"."""
    unit = 0
    while count >= 999.5 and unit < len(_SIZES) - 1:
        count, unit = count / 1000, unit + 1
    number = f"{count:.0f}" if unit == 0 or count >= 99.5 else f"{count:.1f}".removesuffix(".0")
    return f"{number} {_SIZES[unit]}"


def several(count: int, one: str, many: str = "") -> str:
    """Format a count with its noun: "1 job", "1,204 jobs". `many` is the plural, by default `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def short_id(id: str) -> str:
    """Shorten an id to at most 20 characters; keeps the parts in which ids that are listed together differ."""
    if len(id) <= 14:
        return id
    if slot_of(id) is not None:
        name, _, moment = id.rpartition("@")
        # of a slot, the day and the time: the month and the year are the same in most rows
        end = moment[8:].removesuffix("Z") if moment.endswith("Z") else moment[-_END:]
        most = _SHORT - len(end) - 2
        return f"{name if len(name) <= most else name[: most - 1] + '…'}@…{end}"
    node = node_of(id)
    if node is not None and len(node.flow) == 16:
        return f"{id[:2]}…{node.flow[-5:]}{id[16:]}"
    if len(id) in (18, 23) and not is_own(id):  # many ids share a suffix
        end_length = len(id) - 10
        return f"{id[: max(2, 12 - end_length)]}…{id[-end_length:]}"
    return id if len(id) <= _SHORT else f"{id[:8]}…{id[-_END:]}"
