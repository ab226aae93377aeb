"""Ids of jobs, reservations and requests: 16 characters, unique without coordination, sorted by time.

A caller's own id is a colon and the caller's text. It is never read as one of the others, so it contains no time.

A job's id may have a suffix: a hash of its task, one of its key, and a Bloom filter of its tags (B. H. Bloom,
Space/time trade-offs in hash coding with allowable errors, 1970). A search skips other jobs without reading
them, and no job costs a write for an index.
"""

from __future__ import annotations

import os
import re
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable
from datetime import datetime
from random import SystemRandom
from typing import NamedTuple
from zlib import crc32

from lockwork.errors import ConfigError

_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SORTED = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_TABLE = bytes.maketrans(_PLAIN, _SORTED)
_BACK = bytes.maketrans(_SORTED, _PLAIN)
_RANDOM_BITS = 54
_randbits = SystemRandom().getrandbits
_SIGNS = _SORTED.decode()
_PAIRS = [one + other for one in _SIGNS for other in _SIGNS]
_TAG_BITS = 18
_NO_KEY, _NO_TAGS = _PAIRS[0], "---"
_WITH_SUFFIX = (18, 23)
"""Characters of ids with a suffix."""
_SLOT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", re.ASCII)
_NODE = re.compile(r"(.+)\.(\d{5,})u?", re.ASCII)
_OWN = ":"
"""First character of a caller's own id; no other id begins with it."""
_LONGEST_OWN = 199
_own_text = re.compile(r"(?!:)[^\s{}\x00-\x1f\x7f\ud800-\udfff]+").fullmatch

_lock = threading.RLock()
_last = 0


def new_id() -> str:
    """Make an id: 42 bits of ms since 1970, then 54 bits that start at random and count up within the millisecond."""
    return b64encode(_take(1).to_bytes(12, "big")).translate(_TABLE).decode()


def new_ids(count: int, suffix: str = "") -> list[str]:
    """Make many ids with this suffix, ten times as fast as one by one."""
    first = _take(count)
    id_bytes = b"".join([number.to_bytes(12, "big") for number in range(first, first + count)])
    # 12 bytes are 16 characters exactly, so they can be encoded all at once
    text = b64encode(id_bytes).translate(_TABLE).decode()
    return [text[at : at + 16] + suffix for at in range(0, len(text), 16)]


def job_suffix(task: str, tags: Iterable[str] = (), key: str | None = None) -> str:
    """Return the suffix for the id of a job: two characters for its task; with tags or a key, also two and three."""
    bits = 0
    for tag in tags:
        bits |= _tag_bits(tag)
    suffix = _PAIRS[crc32(_bytes(task)) & 4095] + (f"{_NO_KEY}{_PAIRS[bits >> 6]}{_SIGNS[bits & 63]}" if bits else "")
    return with_key(suffix, _bytes(key)) if key else suffix


def with_key(suffix: str, key: bytes) -> str:
    """Return the suffix with another key."""
    return suffix[:2] + _key_pair(key) + (suffix[4:] or _NO_TAGS)


def suffix_pattern(task: str | None, tag: str | None, key: str | None) -> str:
    """Return the Lua pattern that the suffix of each such job matches, and few others do."""
    parts = [".." if task is None else _escaped(_PAIRS[crc32(_bytes(task)) & 4095])]
    if (tag, key) != (None, None):
        parts.append(".." if key is None else _escaped(_key_pair(_bytes(key))))
    if tag is not None:
        bits = _tag_bits(tag)
        parts += [f"[{_with_bits(bits >> shift & 63)}]" for shift in (12, 6, 0)]
    return "^" + "".join(parts)


def _with_bits(bits: int) -> str:
    """Return all characters with these bits, for a set of a Lua pattern."""
    return _escaped("".join(sign for number, sign in enumerate(_SIGNS) if number & bits == bits))


def _escaped(characters: str) -> str:
    return characters.replace("-", "%-")


def _tag_bits(tag: str) -> int:
    number = crc32(_bytes(tag))
    return 1 << number % _TAG_BITS | 1 << (number >> 16) % _TAG_BITS


def _key_pair(key: bytes) -> str:
    return _PAIRS[1 + crc32(key) % 4095]  # never equal to _NO_KEY


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def own_id(text: object) -> str:
    """Return the id of a job that the caller has named: a colon and the text. Raises ConfigError."""
    if isinstance(text, str) and len(text) <= _LONGEST_OWN and _own_text(text):
        return _OWN + text
    raise ConfigError(
        f"a job's own id must be text of 1 to {_LONGEST_OWN} characters without white space, braces or control "
        f"characters, and not begin with a colon, not {text!r:.60}"
    )


def is_own(id: str) -> bool:
    """Return True for a caller's own id."""
    return id.startswith(_OWN)


class NodeId(NamedTuple):
    """A job of a flow: the flow's id, and the job's number in it, from 1."""

    flow: str
    number: int


def node_id(flow: str, number: int) -> str:
    """Return the id of a job of a flow. The server adds a "u" to it for the job that compensates that job."""
    return f"{flow}.{number:05}"


def node_of(id: str) -> NodeId | None:
    """Return the flow and the number of a job's id, or of its compensation's id; None for any other id."""
    match = None if is_own(id) else _NODE.fullmatch(id)
    return None if match is None else NodeId(match[1], int(match[2]))


def slot_of(id: str) -> tuple[str, int] | None:
    """Return the schedule in a job's id, and its slot or the time of its `run_now`, in ms since 1970; else None."""
    name, at, moment = id.rpartition("@")
    if not (at and name) or is_own(id):
        return None
    if not _SLOT.fullmatch(moment):
        time_ms = made_at(moment)
        return None if time_ms is None else (name, time_ms)
    try:
        return name, round(datetime.fromisoformat(moment).timestamp() * 1000)
    except ValueError:  # the date does not exist, such as February 30
        return None


def made_at(id: str) -> int | None:
    """Return the time in an id, in ms since 1970 by its maker's clock; for a schedule's job, its slot; else None."""
    if is_own(id):
        return None
    if "@" in id:
        slot = slot_of(id)
        return slot and slot[1]
    if len(id) not in (16, *_WITH_SUFFIX) or not id.isascii() or "." in id:
        return None
    try:
        number = int.from_bytes(b64decode(id[:16].encode().translate(_BACK), validate=True), "big")
    except ValueError:
        return None
    return number >> _RANDOM_BITS


def enqueued_at(id: str) -> int | None:
    """Return when the job was enqueued, in ms since 1970: as `made_at`; for a job of a flow, when its flow was."""
    node = node_of(id)
    return made_at(id if node is None else node.flow)


def _take(count: int) -> int:
    """Take the next `count` numbers of this process's sequence; returns the first."""
    global _last  # noqa: PLW0603 - there is one sequence per process
    moment = time.time_ns() // 1_000_000
    if _lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - threading.Condition relies on it as well
        # a signal handler has interrupted this function: its ids have random bits of their own
        return moment << _RANDOM_BITS | _randbits(_RANDOM_BITS)
    with _lock:
        # random bits are drawn once per millisecond: within one, counting up is enough, and much cheaper
        first = _last + 1 if moment <= _last >> _RANDOM_BITS else moment << _RANDOM_BITS | _randbits(_RANDOM_BITS)
        _last = first + count - 1
    return first


def _after_fork() -> None:
    global _lock, _last  # noqa: PLW0603 - the child starts its own sequence
    _lock = threading.RLock()
    # one millisecond back, so that the child draws new random bits even within the parent's millisecond
    _last = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
