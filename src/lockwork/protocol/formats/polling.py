"""Wait for a lock whose other users send no wake-ups, with repeated but infrequent calls."""

from __future__ import annotations

import contextlib

from msgspec.structs import replace

from lockwork import words
from lockwork.errors import LockTimeout, LockworkError, ServerRefused
from lockwork.protocol.effects import Call, Clock, Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted, Request, local_deadline
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.retry import patience
from lockwork.protocol.scripts import codes

_FIRST = 0.01
_LONGEST = 0.25
"""Longest pause in seconds: a waiter makes about 4 calls a second, and 6 more at its start."""


class Pauses:
    """The pauses of one waiter: they double, end soon after the lock's expiry, and have jitter."""

    __slots__ = ("_pause",)

    def __init__(self) -> None:
        self._pause = _FIRST

    def next(self, left_ms: int, server_now: int) -> float:
        """Return the length of a pause; `left_ms` is the time until the lock expires, negative without an expiry."""
        # the server's microseconds serve as random numbers: calls differ, and a replay is deterministic
        chance = server_now % 1009 / 1009
        pause = self._pause * (0.75 + chance / 2)
        self._pause = min(2 * self._pause, _LONGEST)
        return pause if left_ms < 0 else min(pause, (left_ms + 1 + 20 * chance) / 1000)


def acquire(asked: Request, wait: float | None, call: Call) -> Protocol[Granted]:
    """Acquire a grant; retry for at most `wait` seconds (None: without a limit), with a last attempt at the end.

    Raises LockTimeout. When interrupted, it releases the lock that an unfinished call may have taken.
    """
    began = yield Clock()
    give_up = None if wait is None else began + wait
    pauses, hints = Pauses(), Hints()
    sent, calling = began, False
    try:
        while True:
            calling = True
            reply = yield replace(call, patience=patience(give_up, sent))
            if reply[0] == codes(asked.scripts.acquire).granted:
                return Granted(0, local_deadline(sent, reply[2], reply[1]))
            calling = False
            if reply[0] == codes(asked.scripts.acquire).unusable:
                raise ServerRefused(f"{asked.shown} {reply[1].decode(errors='replace')}")
            if give_up is not None and sent >= give_up:
                break
            until = sent + pauses.next(reply[1], reply[2])
            yield from listen(hints, asked.request, until if give_up is None else min(until, give_up))
            sent = yield Clock()
    except GeneratorExit:
        raise
    except BaseException:
        if calling:
            with contextlib.suppress(LockworkError):  # server unreachable: a lock that it may have granted expires
                yield from grants.release(asked.key, asked.owner, 0, scripts=asked.scripts, patience=1)
        raise
    within = "" if wait == 0 else f" for {words.exact(wait)}"
    raise LockTimeout(f"{asked.shown} is held by another owner{within}")
