"""Stored history of failed attempts, and of ended jobs (history/parts/history.lua)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from lockwork.ids import node_of, slot_of

_Attempt = tuple[int, int, int, str, str, msgspec.Raw, msgspec.Raw]
_attempts = msgspec.msgpack.Decoder(list[_Attempt]).decode
_row = msgspec.msgpack.Decoder(tuple[str, int, int, str, msgspec.Raw, int, list[_Attempt]]).decode


class PastAttempt(NamedTuple):
    """An unsuccessful attempt; times in µs since 1970. `letter`: f it failed, k its process died."""

    number: int
    started: int
    ended: int
    session: str
    letter: str
    type: str
    text: str


class EndedJob(NamedTuple):
    """An ended job: s succeeded, c cancelled, x expired; times in µs since 1970; `started` is 0 if it never ran."""

    letter: str
    attempts: int
    started: int
    ended: int
    session: str
    record: bytes
    """The beginning of its record."""
    size: int
    timeline: list[PastAttempt]
    overran: bool = False
    """True if the successful attempt ignored its time-out."""


def read_timeline(stored: bytes) -> list[PastAttempt]:
    """Parse the attempts of a job; return an empty list for other data."""
    try:
        return [_attempt(each) for each in _attempts(stored)] if stored else []
    except (msgspec.MsgspecError, IndexError):
        return []


def read_row(stored: bytes, ended: bytes) -> EndedJob | None:
    """Parse the history of a job that ended at that time; return None for other data."""
    try:
        letter, attempts, started, session, record, size, timeline = _row(stored)
        moment = int(float(ended))
        past = [_attempt(each) for each in timeline]
        overran = bool(past) and past[-1].letter == "o"
        if overran:
            past.pop()
        return EndedJob(letter, attempts, started, moment, session, _bytes(record), size, past, overran)
    except (msgspec.MsgspecError, IndexError, ValueError):
        return None


def flow_of(id: str, record: bytes) -> str | None:
    """Return the id of a job's flow; None for a job without a flow."""
    node = node_of(id) if b">;" in record else None
    return None if node is None else node.flow


def schedule_of(id: str) -> str | None:
    """Return the name of the schedule that enqueued a job for one of its slots."""
    slot = slot_of(id)
    return slot and slot[0]


def _attempt(stored: _Attempt) -> PastAttempt:
    number, started, ended, session, letter, type, text = stored
    return PastAttempt(number, started, ended, session, letter, _text(type), _text(text))


def _bytes(packed: msgspec.Raw) -> bytes:
    """Return the bytes of a packed text, because a truncated text may not be UTF-8."""
    stored = bytes(packed)
    first = stored[0]
    return stored[1 if first < 0xC0 else {0xD9: 2, 0xDA: 3, 0xDB: 5}.get(first, 1) :]


def _text(packed: msgspec.Raw) -> str:
    return _bytes(packed).decode(errors="replace")
