"""Grants of every kind: how they are asked for, waited for in line, kept and given back."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from lockwork.errors import LockTimeout, LockworkError, NotReplicated
from lockwork.protocol.effects import Argument, Call, Clock, Park, Protocol
from lockwork.protocol.insisting import insist
from lockwork.protocol.looking import patience
from lockwork.protocol.scripts import script

CLAIM_MS = 4000
"""What a waiter gets when a grant is handed to it unasked; its process renews it within that time if it is alive."""


@dataclass(slots=True, eq=False)
class Request:
    """One call of acquire: everything that the server needs to know about it."""

    key: str
    name: str
    owner: str
    request: str
    channel: str
    lease_ms: int
    renewed: bool
    replicas: int = 0
    """How many replicas must have a grant before it counts."""
    kind: str = "lock"
    """Its scripts are called `<kind>_acquire`, `<kind>_abandon` and so on."""
    noun: str = "lock"
    """What messages call it."""
    extra: tuple[Argument, ...] = ()
    """What its acquire script wants to know besides."""
    whole: bool = False
    """Whether the lease must be whole from the beginning: the claim that a hand-over gives is too short."""


@dataclass(slots=True, eq=False)
class Granted:
    """A grant as its holder knows it: `deadline` is on the holder's own clock, never later than the server's."""

    fence: int
    deadline: float
    waited: bool = False
    """Whether it came through the line."""


def acquire(asked: Request, wait: float | None) -> Protocol[Granted]:  # noqa: C901 - one loop, step by step
    """Get a grant, waiting in line for at most `wait` seconds (None: as long as it takes).

    Raises LockTimeout, or NotReplicated. Interrupted anywhere, it leaves the line, and gives back a grant on its way.
    """
    began = yield Clock()
    give_up = None if wait is None else began + wait
    waited = settled = False
    try:
        while True:
            sent = yield Clock()
            reply = yield _ask(asked, 0 if wait == 0 else 1, patience(give_up, sent))
            if asked.replicas:
                reply = _replicated(asked, *reply)
            if reply[0] == 1:
                return Granted(reply[1], local_deadline(sent, reply[3], reply[2]), waited)
            if wait == 0:
                if reply[1]:
                    continue  # more dead waiters are ahead than one call may take out of the line
                settled = True
                raise LockTimeout(f"{asked.noun} {asked.name!r} is held by somebody else")
            waited = True
            until = sent + reply[1] / 1000
            message = yield Park(asked.request, until if give_up is None else min(until, give_up))
            granted = handed(message, sent, reply[2])
            now = yield Clock()
            # a claim is all that a hand-over gives: who needs the whole lease, or replicas, asks once more
            enough = asked.renewed and not asked.whole and not asked.replicas
            if granted is not None and enough and granted.deadline > now:
                return granted
            if message is None and give_up is not None and now >= give_up:
                yield from abandon(asked)  # here, so that it is repeated below when it is interrupted
                settled = True
                raise LockTimeout(f"{asked.noun} {asked.name!r} was not granted within {wait:g} s")
    except GeneratorExit:
        raise
    except BaseException:
        if not settled:
            yield from abandon(asked)
        raise


def abandon(asked: Request) -> Protocol[None]:
    """Take a request back, whatever became of it."""
    # when the server is away, the place in line, or the grant that nobody renews, ends by its deadline
    with contextlib.suppress(LockworkError):
        args = [asked.owner, asked.request]
        yield Call(script(f"{asked.kind}_abandon"), [asked.key], args, patience=1, behind=asked.replicas > 0)


def _ask(asked: Request, wait: int, trying: float | None) -> Call:
    args = (asked.owner, asked.request, asked.lease_ms, CLAIM_MS, wait, asked.channel, *asked.extra)
    return Call(script(f"{asked.kind}_acquire"), (asked.key,), args, trying, replicas=asked.replicas)


def _replicated(asked: Request, reply: list[int], acknowledged: int) -> list[int]:
    if reply[0] == 1 and acknowledged < asked.replicas:
        raise NotReplicated(
            f"{asked.noun} {asked.name!r} was given back: {acknowledged} of {asked.replicas} replicas had it in time"
        )
    return reply


def release(
    key: str, owner: str, fence: int, *extra: Argument, kind: str = "lock", patience: float | None = None
) -> Protocol[bool]:
    """End a grant and hand it on; False when the server saw that the lease was over before."""
    call = Call(script(f"{kind}_release"), [key], [0, owner, fence, *extra], patience, marked=True)
    return bool((yield from insist(call)))


@dataclass(slots=True, eq=False)
class Renewal:
    """One grant to be kept: its key, owner, fence and lease, and the script that renews its kind."""

    key: str
    owner: str
    fence: int
    lease_ms: int
    script: str = "lock_renew"


def renew(grants: Sequence[Renewal], patience: float | None) -> Protocol[list[float | None]]:
    """Keep many grants of one kind with one call; per grant its new deadline on the client's clock, None when over."""
    sent = yield Clock()
    args: list[str | int] = []
    for grant in grants:
        args += (grant.owner, grant.fence, grant.lease_ms)
    reply = yield Call(script(grants[0].script), [grant.key for grant in grants], args, patience=patience)
    now = reply[-1]
    return [local_deadline(sent, now, ends) if ends else None for ends in reply[:-1]]


def local_deadline(sent: float, server_now: int, server_deadline: int) -> float:
    """Convert the server's deadline (us) to the client's clock (s)."""
    # The server read its clock after `sent`, so this is never later than the server's own deadline.
    return sent + (server_deadline - server_now) / 1_000_000


def handed(message: str | None, sent: float, server_now: int) -> Granted | None:
    """Read a hand-over; it carries the server's deadline, and our last call tells how far its clock is from ours."""
    parts = message.split() if message else []
    if len(parts) != 2:
        return None
    return Granted(int(parts[0]), local_deadline(sent, server_now, int(parts[1])), waited=True)
