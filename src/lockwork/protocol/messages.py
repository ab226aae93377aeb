"""Messages on a wake channel. An unsealed message is only a hint to check, because any user may have sent it.

Every user who may PUBLISH on the channel can send any text. So a message that replaces a call to the server, such as a
grant, has a seal (parts/seal.lua): a keyed hash of its text. The receiver has sent the key to the server, and only
users who may read the keys of that lock or queue can read it there. Unknown messages, such as messages of a later
version, count as hints. No parser here raises an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from lockwork.hashes import blake2b, compare_digest, random_bytes, sha1
from lockwork.logs import Log
from lockwork.protocol.effects import Clock, Park, Protocol

T = TypeVar("T")

log: Log = Log("lockwork")

LARGEST = 64 * 1024
"""Limit of a message in bytes; of a longer message, only the ticket is used. Server messages are under half of it."""
LONGEST_TICKET = 4096
_SEALED = re.compile(r"([0-9a-f]{40}) (.*)", re.DOTALL)
_NUMBERS = re.compile(r"[0-9]{1,18}(?: [0-9]{1,18})*")

HINT = True
"""Result of `listen` for a message that is only a hint."""
_SHOWN = 40
_AT_ONCE = 100
_PER_SECOND = 50.0

_process_key = random_bytes(32)
_reported: list[str] = []
"""The first unreadable message, which was logged. Others are not logged, because their number has no limit."""


def split(message: bytes) -> tuple[str, str]:
    """Return the ticket and the text of a message; bytes that are not UTF-8 become surrogates."""
    if len(message) > LARGEST:
        message = message[:LONGEST_TICKET].partition(b" ")[0]
    ticket, _, text = message.decode(errors="surrogateescape").partition(" ")
    return ("", "") if len(ticket) > LONGEST_TICKET else (ticket, text)


@lru_cache(maxsize=1000)
def secret(key: str) -> str:
    """Return the key of the server's seals on messages of `key` to this process: 32 characters, hard to guess."""
    return blake2b(key.encode(errors="surrogateescape"), key=_process_key, digest_size=16).hexdigest()


def seal(secret: str, ticket: str, words: str) -> str:
    """Compute the seal of a message, as parts/seal.lua does."""
    text = f"{ticket} {words}".encode(errors="surrogateescape")
    key = secret.encode()
    inner = sha1(key + text, usedforsecurity=False).hexdigest()
    return sha1(key + inner.encode(), usedforsecurity=False).hexdigest()


def opened(secret: str, ticket: str, text: str) -> str | None:
    """Return the content of a message that is sealed with `secret`; None if it is only a hint."""
    if text in ("", "look"):
        return None
    match = _SEALED.fullmatch(text)
    if secret and match and compare_digest(match[1], seal(secret, ticket, match[2])):
        return match[2]
    if not _reported:
        _reported.append(text[:_SHOWN])
        log.warning(
            "a message on the wake channel has no valid seal, so it only causes a poll: %r (others are not logged)",
            text[:_SHOWN],
        )
    return None


def numbers(secret: str, ticket: str, text: str, count: int) -> list[int] | None:
    """Return the `count` numbers of a sealed message; None if it is only a hint."""
    words = opened(secret, ticket, text)
    if words is None or not _NUMBERS.fullmatch(words):
        return None
    values = [int(word) for word in words.split(" ")]
    return values if len(values) == count else None


class Hints:
    """Limit of the calls that messages can cause: 100 at once, and 50 a second.

    Any user who may publish can send any number of hints. Beyond the limit, the receiver follows a hint up to 20 ms
    later, together with all hints that arrive until then.
    """

    __slots__ = ("_full_at",)

    def __init__(self) -> None:
        self._full_at = float("-inf")
        """Time when the full allowance is available again."""

    def take(self, now: float) -> float:
        """Return the time when the next hint may be followed; if that is now, count it."""
        allowed = self._full_at - (_AT_ONCE - 1) / _PER_SECOND
        if allowed > now:
            return allowed
        self._full_at = max(self._full_at, now) + 1 / _PER_SECOND
        return now

    def refund(self) -> None:
        """Do not count the last hint, because its call found something."""
        self._full_at -= 1 / _PER_SECOND


def _says_nothing(text: str) -> None:  # noqa: ARG001 - the default parser
    return None


def listen(
    hints: Hints,
    ticket: str,
    until: float,
    read: Callable[[str], T | None] = _says_nothing,
    key: str | None = None,
    sent: float | None = None,
    held: tuple[str, ...] = (),
) -> Protocol[T | bool | None]:
    """Wait for a message to `ticket`, from the scripts of `key`, until the clock shows `until`; the rest: see Park.

    Return the result of `read` for the message if it is not None, `HINT` for any other message, or None at the time
    `until`. Hints beyond the limit are delayed; messages that `read` accepts are never delayed.
    """
    hinted, wake = False, until
    while True:
        text = yield Park(ticket, wake, key, sent, held)
        if text is not None and (content := read(text)) is not None:
            return content
        if text is None and not hinted:
            return None
        hinted = True
        now = yield Clock()
        turn = hints.take(now)
        if turn <= now:
            return HINT
        if text is None and now >= until:
            return None
        wake = min(turn, until)
