"""The stored form of encrypted and signed payloads: `~KEY.DATA`, and for a signed payload `~KEY.SIGNATURE:JSON`.

JSON never begins with a tilde. KEY is the id of the key; `KEY/unique` and `KEY/schedule` say that the payload is bound
to a unique name or to a schedule instead of a job's id. DATA and SIGNATURE are base64url without padding.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Literal, NamedTuple

SEALED_TEXT = "\0~"
"""How the encrypted text of an error begins: an error's own text may begin with a tilde."""
Bound = Literal["", "unique", "schedule"]
"""What a call is bound to, besides its queue and task: its job's id, its unique name, or its schedule."""
KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)
_FORM = re.compile(rb"~([A-Za-z0-9][A-Za-z0-9_-]{0,39})(?:/(unique|schedule))?\.([A-Za-z0-9_-]*)(:)?")
_DATA = re.compile(rb'("~[A-Za-z0-9][\w/-]{0,60}\.)[A-Za-z0-9_-]*')
_TILDE = ord("~")


class Encrypted(str):
    """The text that is shown instead of a value that cannot be read."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str.__str__(self)


ENCRYPTED = Encrypted("(encrypted)")


class Envelope(NamedTuple):
    """An encrypted payload, or the signature of `payload`."""

    key_id: str
    bound: str
    data: bytes
    payload: bytes | None = None


def pack(key_id: str, data: bytes, bound: Bound = "", payload: bytes | None = None) -> bytes:
    """Return the stored form of encrypted data, or of a signature and its payload."""
    encoded = urlsafe_b64encode(data).rstrip(b"=")
    mark = f"~{key_id}/{bound}." if bound else f"~{key_id}."
    return mark.encode() + encoded + (b"" if payload is None else b":" + payload)


def shown_text(text: str) -> str:
    """Return the text of an error; `ENCRYPTED` if it is encrypted."""
    return ENCRYPTED if text.startswith(SEALED_TEXT) else text


def is_packed(stored: bytes) -> bool:
    """Return True if a stored value is encrypted or signed."""
    return bool(stored) and stored[0] == _TILDE


def unpack(stored: bytes) -> Envelope | None:
    """Read a stored form; None for other data."""
    match = _FORM.match(stored)
    if match is None or (match[4] is None and match.end() != len(stored)):
        return None
    try:
        data = urlsafe_b64decode(match[3] + b"=" * (-len(match[3]) % 4))
    except ValueError:
        return None
    return Envelope(match[1].decode(), (match[2] or b"").decode(), data, stored[match.end() :] if match[4] else None)


def readable(stored: bytes) -> bytes | None:
    """Return the JSON of a plain or signed value; None for an encrypted value."""
    if not is_packed(stored):
        return stored
    envelope = unpack(stored)
    return None if envelope is None else envelope.payload


def without_data(record: bytes) -> bytes:
    """Return a record with the ids of its keys, but without encrypted data, for searches."""
    return _DATA.sub(rb"\1", record)
