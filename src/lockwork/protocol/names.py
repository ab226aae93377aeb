"""Escape names from users' data for keys and records, and unescape them (docs/keys.md).

Only `stored` escapes, and only `shown` unescapes. Different names have different stored forms, and different stored
names have different displayed forms.
"""

from __future__ import annotations

import re

from lockwork.errors import ConfigError
from lockwork.hashes import sha256

MOST = 200
"""Limit of a stored name in bytes; for a longer name, its beginning and a hash are stored."""
_BEGINNING = 64
"""Bytes of a long name to store before the hash."""
_EMPTY = "%"
_HASHED = "%~"
"""Separates the beginning and the hash; no escaped character begins with it."""
_DIGITS = 40
HASHED = "... sha256:"
"""Separates the beginning and the hash of a displayed name."""
_plain = re.compile(r"[!-$&-+\--:<-z|~]{1,200}").fullmatch
"""Matches an ASCII name that needs no escape; excludes the space of HASHED and the percent sign."""
_special = re.compile(r"[\s%,;{}\x00-\x1f\x7f-\x9f]")
_surrogate = re.compile(r"[\ud800-\udfff]")
_escapes = re.compile(r"(?:%[0-9A-F]{2})+")
_looks_hashed = re.compile(rf"(.*){re.escape(HASHED)}([0-9a-f]{{{_DIGITS}}})", re.DOTALL).fullmatch
_is_hashed = re.compile(rf"(.*){_HASHED}([0-9a-f]{{{_DIGITS}}})", re.DOTALL).fullmatch


class _Typed(str):
    """A name copied from a screen, with its beginning and its hash."""

    __slots__ = ("stored",)
    stored: str


def checked_name(name: object, what: str) -> str:
    """Return a name; raises ConfigError if it is not text."""
    if isinstance(name, str):
        return name
    raise ConfigError(f"{what} must be text, not {name!r:.60}")


def stored(name: str) -> str:
    """Return the stored form of a name: 1 to 200 bytes without white space, braces, comma or semicolon."""
    if _plain(name):
        return str.__str__(name)
    if isinstance(name, _Typed):
        return name.stored
    if not name:
        return _EMPTY
    name = str.__str__(name)
    # a text that looks like a hashed name must not be shown like a hashed name
    if len(name) <= MOST and not _surrogate.search(name) and not _looks_hashed(name):
        escaped = _special.sub(_escape, name)
        if len(escaped.encode()) <= MOST:
            return escaped
    return f"{beginning(name)}{_HASHED}{sha256(name.encode(errors='surrogatepass')).hexdigest()[:_DIGITS]}"


def beginning(name: str) -> str:
    """Return the beginning of a name, as stored before a hash: all whole characters in the first 64 bytes."""
    escaped = ""
    for sign in name[:_BEGINNING]:
        longer = escaped + _special.sub(_escape, _surrogate.sub("\N{REPLACEMENT CHARACTER}", sign))
        if len(longer.encode()) > _BEGINNING:
            break
        escaped = longer
    return escaped


def shown(stored: str) -> str:
    """Return the name from its stored form; for a hashed name, its beginning and the hash."""
    if "%" not in stored:
        return stored
    if stored == _EMPTY:
        return ""
    if hashed := _is_hashed(stored):
        return f"{_escapes.sub(_unescape, hashed[1])}{HASHED}{hashed[2]}"
    return _escapes.sub(_unescape, stored)


def shown_or_none(stored: str) -> str | None:
    """Return the name from its stored form; None for an empty text, which is no stored form."""
    return shown(stored) if stored else None


def display(name: str) -> str:
    """Return the displayed form of a name: the name, or for a hashed name, its beginning and the hash."""
    return name if _plain(name) else shown(stored(name))


def typed(text: str) -> str:
    """Return the name that a user typed; for the displayed form of a hashed name, return that name."""
    if not isinstance(text, _Typed) and (hashed := _looks_hashed(text)):
        name = _Typed(text)
        name.stored = f"{beginning(hashed[1])}{_HASHED}{hashed[2]}"
        return name
    return text


def _escape(sign: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in sign[0].encode())


def _unescape(escapes: re.Match[str]) -> str:
    try:
        return bytes.fromhex(escapes[0].replace("%", "")).decode()
    except UnicodeDecodeError:  # not written by us
        return escapes[0]
