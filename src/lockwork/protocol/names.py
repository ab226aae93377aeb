"""Names from users' data as keys and records hold them: escaped, and unescaped again (docs/keys.md).

`stored` is the only place that escapes, and `shown` the only one that unescapes. Different names are stored
differently, and two stored names are never shown alike.
"""

from __future__ import annotations

import re
from hashlib import sha256

from lockwork.errors import ConfigError

MOST = 200
"""Bytes of a stored name; of a longer one, the beginning and a hash are stored."""
_BEGINNING = 64
"""Bytes of the beginning that is stored with a hash."""
_EMPTY = "%"
_HASHED = "%~"
"""Between the beginning and the hash; no escaped character begins like this."""
_DIGITS = 40
HASHED = "... sha256:"
"""Between the beginning and the hash of a name as it is shown."""
_plain = re.compile(r"[!-$&-+\--:<-z|~]{1,200}").fullmatch
"""Matches a name that is stored as it is, if it is ASCII; contains neither the space of HASHED nor a percent sign."""
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
    """Return the name as keys and records hold it, 1 to 200 bytes without white space, braces, comma or semicolon."""
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
    """Return the beginning of a name as a hashed name stores it: all whole characters in the first 64 bytes."""
    escaped = ""
    for sign in name[:_BEGINNING]:
        longer = escaped + _special.sub(_escape, _surrogate.sub("\N{REPLACEMENT CHARACTER}", sign))
        if len(longer.encode()) > _BEGINNING:
            break
        escaped = longer
    return escaped


def shown(stored: str) -> str:
    """Return the name that is stored; of a hashed one, its beginning and the hash."""
    if "%" not in stored:
        return stored
    if stored == _EMPTY:
        return ""
    if hashed := _is_hashed(stored):
        return f"{_escapes.sub(_unescape, hashed[1])}{HASHED}{hashed[2]}"
    return _escapes.sub(_unescape, stored)


def shown_or_none(stored: str) -> str | None:
    """Return the name that is stored, or None for an empty text, which no name is stored as."""
    return shown(stored) if stored else None


def display(name: str) -> str:
    """Return the name as it is shown: itself, or, if it is stored as a hash, its beginning and the hash."""
    return name if _plain(name) else shown(stored(name))


def typed(text: str) -> str:
    """Return the name that a person means: of a text that was shown for a hashed name, that name."""
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
