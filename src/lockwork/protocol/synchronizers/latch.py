"""The latch: opens when its count reaches zero, and stays open; a reset begins a new round."""

from __future__ import annotations

from msgspec import Struct

from lockwork.errors import ConfigError
from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.keys import LatchKeys
from lockwork.protocol.messages import Hints, listen, numbers, secret
from lockwork.protocol.retry import Rechecks, patience
from lockwork.protocol.scripts import codes


class LatchRequest(Struct, frozen=True):
    """One latch, with the values that all its users must share."""

    keys: LatchKeys
    name: str
    count: int
    ttl_ms: int


class LatchStatus(Struct, frozen=True):
    """`left` of `count` must still be counted down."""

    left: int
    count: int

    @property
    def open(self) -> bool:
        """True if the latch is open."""
        return not self.left


def count_down(latch: LatchRequest, request: str, n: int) -> Protocol[int]:
    """Count down by `n`, once per `request`; return the remaining count."""
    args: list[Argument] = [latch.count, latch.ttl_ms, request, n]
    return _checked(latch, *(yield script_call("synchronizers/latch_count", latch.keys, args)))


def wait(latch: LatchRequest, channel: str, timeout: float | None) -> Protocol[bool]:
    """Wait at most `timeout` seconds until the latch opens; return False after that time.

    An interrupted call needs no cleanup: its process's place expires, and a message until then has no effect.
    """
    began = yield Clock()
    give_up = None if timeout is None else began + timeout
    # one message wakes all waiters of a process: a waiter that has not parked yet must check again soon
    ticket = latch.keys.latch
    rechecks, hints, sealed_with = Rechecks(0.1), Hints(), secret(ticket)
    since = 0
    while True:
        sent = yield Clock()
        here = channel if give_up is None or sent < give_up else ""
        args: list[Argument] = [latch.count, latch.ttl_ms, since, here, sealed_with]
        code, left, round = yield script_call("synchronizers/latch_wait", latch.keys, args, patience(give_up, sent))
        if code == codes("synchronizers/latch_wait").open:
            return True
        _checked(latch, code, left)
        since = since or round
        now = yield Clock()
        if give_up is not None and now >= give_up:
            return False
        message = yield from listen(
            hints,
            ticket,
            rechecks.next(now, give_up),
            lambda text: numbers(sealed_with, ticket, text, 1),
            ticket,
        )
        if isinstance(message, list) and message[0] >= since:
            return True


def status(latch: LatchRequest) -> Protocol[LatchStatus]:
    """Read the remaining count."""
    left = _checked(latch, *(yield script_call("synchronizers/latch_state", latch.keys, [latch.count])))
    return LatchStatus(left, latch.count)


def reset(latch: LatchRequest, request: str) -> Protocol[None]:
    """Begin a new round, once per `request`."""
    yield script_call("synchronizers/latch_reset", latch.keys, [latch.count, latch.ttl_ms, request])


def _checked(latch: LatchRequest, code: int, left: int) -> int:
    if code == codes("synchronizers/latch_state").other_count:
        raise ConfigError(
            f"latch {latch.name!r} is in use with a count of {left}, and this handle says {latch.count}: "
            "use the same count everywhere, or reset it"
        )
    return left
