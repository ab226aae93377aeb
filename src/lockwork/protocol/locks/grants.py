"""Acquire, renew and release grants of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from lockwork import words
from lockwork.errors import LockTimeout, LockworkError, NotReplicated, ServerRefused
from lockwork.protocol import messages
from lockwork.protocol.effects import Argument, Call, Calls, Clock, Protocol, script_call
from lockwork.protocol.names import display
from lockwork.protocol.retry import insist, patience, undo
from lockwork.protocol.scripts import codes

_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class LockState:
    """The current holder of a lock: `owner` is None without a holder; `expires_in` is in seconds.

    Without a holder, `expires_in` is above 0 while a released lock stays taken (`at_least`). `waiters` is exact up to
    1,000; with more waiters, it may include waiters that died recently.
    """

    owner: str | None
    request: str
    fence: int
    expires_in: float
    waiters: int


def state(key: str, *, count: bool = True) -> Protocol[LockState]:
    """Read the holder of the lock and, if `count`, the number of live waiters.

    Reads 1,000 places of waiters; all further places count as live.
    """
    args = [_COUNTED if count else 0]
    owner, request, fence, remaining_ms, waiters = yield script_call("locks/state", key, args)
    return LockState(owner.decode() or None, request.decode(), fence, remaining_ms / 1000, waiters)


def force(key: str, fence: int, channels: str) -> Protocol[bool]:
    """End the grant with this fence, of any holder; return False if it has already ended.

    channels: prefix of the channels of all processes. The holder's process is notified.
    """
    return bool((yield script_call("locks/force", key, [0, fence, channels])))


def adopt(asked: Request, owner: str, fence: int) -> Protocol[Granted | None]:
    """Turn the grant of `owner` with `fence` into a new grant of the caller; return None if it has ended.

    When interrupted, it abandons the grant that it may have adopted.
    """
    sent = yield Clock()
    args: list[Argument] = [asked.owner, asked.request, asked.lease_ms, owner, fence]
    try:
        raised, deadline, now = yield script_call("locks/adopt", asked.key, args)
        return Granted(raised, local_deadline(sent, now, deadline)) if raised else None
    except (GeneratorExit, LockworkError):
        raise
    except BaseException:
        yield from abandon(asked)
        raise


class LockScripts(Struct, frozen=True):
    """The scripts of one kind of lock."""

    acquire: str
    abandon: str
    release: str
    renew: str


LOCK = LockScripts("locks/acquire", "locks/abandon", "locks/release", "locks/renew")

CLAIM_MS = 4000
"""Lease (ms) of a grant that the server transfers to a waiter. A live process renews it within this time."""


class Request(Struct, eq=False):
    """One call of `acquire`, with all values that the server needs."""

    key: str
    name: str
    owner: str
    request: str
    channel: str
    lease_ms: int
    renewed: bool
    replicas: int = 0
    """Number of replicas that must confirm a grant."""
    scripts: LockScripts = LOCK
    noun: str = "lock"
    """Word for this kind of lock in messages."""
    extra: tuple[Argument, ...] = ()
    """More arguments of its acquire script."""
    subscribed: bool = False
    """True if the process was subscribed to its channel when it made the request."""
    whole: bool = False
    """True if the lease must have its full length from the beginning; the claim of a transfer is shorter."""

    @property
    def shown(self) -> str:
        """The name of the lock in error messages."""
        return f"{self.noun} {display(self.name)!r}"


class Granted(Struct, eq=False):
    """A grant, as known to its holder: `deadline` is on the holder's clock, never later than the server's deadline."""

    fence: int
    deadline: float
    waited: bool = False
    """True if the grant was transferred to a waiter."""
    handed: float | None = None
    """Approximate seconds since the release that transferred it; None if it was free, or its last lease expired."""
    ticket: int = 0
    """Its place among the waiters of a lock; 0 if it did not wait."""


def acquire(asked: Request, wait: float | None) -> Protocol[Granted]:  # noqa: C901 - one loop, step by step
    """Acquire a grant, and wait for it at most `wait` seconds (None: without a limit).

    Raises LockTimeout, or NotReplicated. When interrupted, it withdraws the request, and releases a grant that the
    server may have made.
    """
    began = yield Clock()
    give_up = None if wait is None else began + wait
    waited = settled = False
    ticket = 0
    secret = "" if wait == 0 else messages.secret(asked.key)
    hints: messages.Hints | None = None
    try:
        while True:
            sent = yield Clock()
            waits = 0 if wait == 0 else 2 if asked.subscribed and asked.scripts is LOCK and not waited else 1
            reply = yield _ask(asked, waits, patience(give_up, sent), secret)
            if asked.replicas:
                reply = _replicated(asked, *reply)
            if reply[0] == codes(asked.scripts.acquire).granted:
                _, fence, deadline, now = reply
                # the fence is the server's time of the grant, unless the server's clock was set back
                ago = (now - fence) / 1_000_000 if waited and fence < now else None
                return Granted(fence, local_deadline(sent, now, deadline), waited, ago, ticket)
            if wait == 0:
                if reply[1]:
                    continue  # the call removed the maximum number of dead waiters, and more are ahead
                settled = True
                raise LockTimeout(f"{asked.shown} is held by another owner")
            waited = True
            ticket = reply[3] if len(reply) > 3 else 0
            asked_at = (sent + (yield Clock())) / 2
            until = sent + reply[1] / 1000
            hints = hints or messages.Hints()
            ends = until if give_up is None else min(until, give_up)
            message = yield from messages.listen(
                hints,
                asked.request,
                ends,
                lambda text: messages.numbers(secret, asked.request, text, 2),
                asked.key,
                sent,
            )
            now = yield Clock()
            granted = handed(message, sent, reply[2], now) if isinstance(message, list) else None
            # a transfer gives only a claim: if the full lease or replicas are required, call again
            enough = asked.renewed and not asked.whole and not asked.replicas
            if granted is not None and enough and granted.deadline > now:
                # as in NTP: assume that the server read its clock halfway between the call and its reply
                granted.handed = max(0.0, now - asked_at - (granted.fence - reply[2]) / 1_000_000)
                granted.ticket = ticket
                return granted
            if message is None and give_up is not None and now >= give_up:
                yield from abandon(asked)  # inside the `try`, so an interrupted call is repeated below
                settled = True
                raise LockTimeout(f"{asked.shown} was not granted within {words.exact(wait)}")
    except GeneratorExit:
        raise
    except BaseException as error:
        if not settled:
            yield from abandon(asked, error)
        raise


def abandon(asked: Request, why: BaseException | None = None) -> Protocol[None]:
    """Withdraw a request, whether it was granted or not; `why`: see `undo`."""
    args = [asked.owner, asked.request]
    yield from undo(script_call(asked.scripts.abandon, asked.key, args, behind=asked.replicas > 0), why)


def _ask(asked: Request, wait: int, trying: float | None, secret: str) -> Call:
    args = (asked.owner, asked.request, asked.lease_ms, CLAIM_MS, wait, asked.channel, *asked.extra, secret)
    return script_call(asked.scripts.acquire, asked.key, args, trying, ordered=True, replicas=asked.replicas)


def _replicated(asked: Request, reply: list[int], acknowledged: int) -> list[int]:
    if reply[0] == codes(asked.scripts.acquire).granted and acknowledged < asked.replicas:
        raise NotReplicated(
            f"{asked.shown} was released: only {acknowledged} of {asked.replicas} replicas had it in time"
        )
    return reply


def release(
    key: str, owner: str, fence: int, *extra: Argument, scripts: LockScripts = LOCK, patience: float | None = None
) -> Protocol[bool]:
    """End a grant and transfer it to the next waiter; return False if the lease was already over on the server."""
    call = script_call(scripts.release, key, [0, owner, fence, *extra], patience)
    return bool((yield from insist(call)))


class Renewal(Struct, eq=False):
    """One grant to renew."""

    key: str
    owner: str
    fence: int
    lease_ms: int
    scripts: LockScripts = LOCK


class Refusal(Struct, eq=False):
    """The error of one grant in a renewal; `over`: another program has overwritten its key."""

    error: ServerRefused
    over: bool


def renew(grants: Sequence[Renewal], patience: float | None) -> Protocol[list[float | None]]:
    """Renew grants of one kind with one call. Return each new deadline on the client's clock, or None when it is over.

    Raises ServerRefused when one grant cannot be renewed; the others are renewed.
    """
    answers = yield from renew_each(grants, patience)
    deadlines: list[float | None] = []
    for answer in answers:
        if isinstance(answer, Refusal):
            raise answer.error
        deadlines.append(answer)
    return deadlines


def renew_each(
    grants: Sequence[Renewal], patience: float | None, heard: Callable[[float, float, float], object] | None = None
) -> Protocol[list[float | Refusal | None]]:
    """Renew grants as `renew`, but return each error instead of raising it.

    `heard` is called with the client's time before and after the call, and the server's time in between, in seconds.
    """
    sent = yield Clock()
    reply = yield _renewing(grants, patience)
    if heard is not None:
        heard(sent, (yield Clock()), reply[-1] / 1_000_000)
    return _renewed(grants, reply, sent)


def renew_together(
    batches: Sequence[Sequence[Renewal]], patience: float | None, heard: Callable[[str, float, float, float], object]
) -> Protocol[list[list[float | Refusal | None] | LockworkError]]:
    """Renew batches whose keys lie in different slots of a Cluster, with one round trip per shard.

    Return the result of each batch, or its error. `heard` is called as in `renew_each`, with a key of the batch first.
    """
    sent = yield Clock()
    replies = yield Calls([_renewing(grants, patience) for grants in batches])
    received = yield Clock()
    results: list[list[float | Refusal | None] | LockworkError] = []
    for grants, reply in zip(batches, replies, strict=True):
        if isinstance(reply, LockworkError):
            results.append(reply)
        else:
            heard(grants[0].key, sent, received, reply[-1] / 1_000_000)
            results.append(_renewed(grants, reply, sent))
    return results


def _renewing(grants: Sequence[Renewal], patience: float | None) -> Call:
    args: list[str | int] = []
    for grant in grants:
        args += (grant.owner, grant.fence, grant.lease_ms)
    return script_call(grants[0].scripts.renew, [grant.key for grant in grants], args, patience=patience)


def _renewed(grants: Sequence[Renewal], reply: Sequence[Any], sent: float) -> list[float | Refusal | None]:
    now = reply[-1]
    answers: list[float | Refusal | None] = []
    for grant, ends in zip(grants, reply[:-1], strict=True):
        if isinstance(ends, bytes):
            answers.append(Refusal(foreign(grant.key, ends), b"WRONGTYPE" in ends))
        else:
            answers.append(local_deadline(sent, now, ends) if ends else None)
    return answers


def foreign(key: str, said: bytes) -> ServerRefused:
    """Return the error for one of many keys, from the server's error text."""
    problem = said.decode(errors="replace")
    return ServerRefused(f"the key {key} contains data of another program ({problem}): use another prefix")


def local_deadline(sent: float, server_now: int, server_deadline: int) -> float:
    """Convert the server's deadline (us) to the client's clock (s)."""
    # The server read its clock after `sent`, so this is never later than the server's own deadline.
    return sent + (server_deadline - server_now) / 1_000_000


def handed(grant: Sequence[int], sent: float, server_now: int, now: float) -> Granted:
    """Return the grant of a transfer message, which has the fence and the server's deadline.

    The deadline is converted with the clocks of the last call. It is never later than one claim from now, also if the
    server's clock was set forward since that call.
    """
    fence, ends = grant
    return Granted(fence, min(local_deadline(sent, server_now, ends), now + CLAIM_MS / 1000), waited=True)
