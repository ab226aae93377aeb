"""What other programs wrote, as a terminal may have it."""

from __future__ import annotations

from math import ceil


def printable(text: str) -> str:
    """Replace whatever would steer the terminal: anybody may write to the server."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


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
