"""Grants of every kind: how they are asked for, waited for in line, kept and returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
    """Who holds a lock now: `owner` is None when nobody does; `expires_in` is in seconds.

    A lock that nobody holds may still be kept for a while after its release (`at_least`): then `expires_in` is not 0.
    `waiters` is exact for up to 1,000; of a longer line, those who died lately may be among them.
    """

    owner: str | None
    request: str
    fence: int
    expires_in: float
    waiters: int


def state(key: str, *, count: bool = True) -> Protocol[LockState]:
    """Read who holds the lock and, if `count`, how many live waiters there are.

    Of a line that has more than 1,000 places, those further back all count as live.
    """
    args = [_COUNTED if count else 0]
    owner, request, fence, left, waiters = yield script_call("locks/state", key, args)
    return LockState(owner.decode() or None, request.decode(), fence, left / 1000, waiters)


def force(key: str, fence: int, channels: str) -> Protocol[bool]:
    """End the grant with this fence, of any holder; False if it has ended already.

    `channels` is the prefix of the channels of all processes: the holder's process is notified.
    """
    return bool((yield script_call("locks/force", key, [0, fence, channels])))


def adopt(asked: Request, owner: str, fence: int) -> Protocol[Granted | None]:
    """Make the grant of `owner` with `fence` a new grant of the caller; None if it has ended.

    Interrupted, it returns what it may have taken over.
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


@dataclass(frozen=True, slots=True)
class LockScripts:
    """The scripts of one kind of lock."""

    acquire: str
    abandon: str
    release: str
    renew: str


LOCK = LockScripts("locks/acquire", "locks/abandon", "locks/release", "locks/renew")

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
    scripts: LockScripts = LOCK
    noun: str = "lock"
    """What messages call it."""
    extra: tuple[Argument, ...] = ()
    """What its acquire script wants to know besides."""
    whole: bool = False
    """Whether the lease must be whole from the beginning: the claim that a hand-over gives is too short."""

    @property
    def shown(self) -> str:
        """The lock as errors name it."""
        return f"{self.noun} {display(self.name)!r}"


@dataclass(slots=True, eq=False)
class Granted:
    """A grant as its holder knows it: `deadline` is on the holder's own clock, never later than the server's."""

    fence: int
    deadline: float
    waited: bool = False
    """Whether it came through the line."""
    handed: float | None = None
    """Seconds since the release by which it was handed over, about; None if it was free, or its last lease ran out."""


def acquire(asked: Request, wait: float | None) -> Protocol[Granted]:  # noqa: C901 - one loop, step by step
    """Get a grant, waiting in line for at most `wait` seconds (None: as long as it takes).

    Raises LockTimeout, or NotReplicated. Interrupted anywhere, it leaves the line, and returns a grant on its way.
    """
    began = yield Clock()
    give_up = None if wait is None else began + wait
    waited = settled = False
    secret = "" if wait == 0 else messages.secret(asked.key)
    hints: messages.Hints | None = None
    try:
        while True:
            sent = yield Clock()
            reply = yield _ask(asked, 0 if wait == 0 else 1, patience(give_up, sent), secret)
            if asked.replicas:
                reply = _replicated(asked, *reply)
            if reply[0] == codes(asked.scripts.acquire).granted:
                _, fence, deadline, now = reply
                # the fence is the server's time of the grant, unless its clock was set back
                ago = (now - fence) / 1_000_000 if waited and fence < now else None
                return Granted(fence, local_deadline(sent, now, deadline), waited, ago)
            if wait == 0:
                if reply[1]:
                    continue  # more dead waiters are ahead than one call may take out of the line
                settled = True
                raise LockTimeout(f"{asked.shown} is held by another owner")
            waited = True
            asked_at = (sent + (yield Clock())) / 2
            until = sent + reply[1] / 1000
            hints = hints or messages.Hints()
            ends = until if give_up is None else min(until, give_up)
            heard = yield from messages.listen(
                hints, asked.request, ends, lambda text: messages.numbers(secret, asked.request, text, 2), asked.key
            )
            now = yield Clock()
            granted = handed(heard, sent, reply[2], now) if isinstance(heard, list) else None
            # a claim is all that a hand-over gives: who needs the whole lease, or replicas, asks once more
            enough = asked.renewed and not asked.whole and not asked.replicas
            if granted is not None and enough and granted.deadline > now:
                # as NTP does it: the server answered halfway between the call and its reply
                granted.handed = max(0.0, now - asked_at - (granted.fence - reply[2]) / 1_000_000)
                return granted
            if heard is None and give_up is not None and now >= give_up:
                yield from abandon(asked)  # here, so that it is repeated below when it is interrupted
                settled = True
                raise LockTimeout(f"{asked.shown} was not granted within {words.exact(wait)}")
    except GeneratorExit:
        raise
    except BaseException as error:
        if not settled:
            yield from abandon(asked, error)
        raise


def abandon(asked: Request, why: BaseException | None = None) -> Protocol[None]:
    """Take a request back, whatever became of it; `why`: see `undo`."""
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
    """End a grant and hand it on; False when the server saw that the lease was over before."""
    call = script_call(scripts.release, key, [0, owner, fence, *extra], patience)
    return bool((yield from insist(call)))


@dataclass(slots=True, eq=False)
class Renewal:
    """One grant to be kept."""

    key: str
    owner: str
    fence: int
    lease_ms: int
    scripts: LockScripts = LOCK


@dataclass(slots=True, eq=False)
class Refusal:
    """Why one grant could not be renewed with the others; `over`: its key is another program's by now."""

    error: ServerRefused
    over: bool


def renew(grants: Sequence[Renewal], patience: float | None) -> Protocol[list[float | None]]:
    """Keep many grants of one kind with one call; per grant its new deadline on the client's clock, None when over.

    Raises ServerRefused when one of them cannot be renewed; the others are.
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
    """Do the same, and return why a grant could not be renewed.

    `heard` gets the client's time before and after the call, and the server's in between, in seconds.
    """
    sent = yield Clock()
    reply = yield _renewing(grants, patience)
    if heard is not None:
        heard(sent, (yield Clock()), reply[-1] / 1_000_000)
    return _renewed(grants, reply, sent)


def renew_together(
    batches: Sequence[Sequence[Renewal]], patience: float | None, heard: Callable[[str, float, float, float], object]
) -> Protocol[list[list[float | Refusal | None] | LockworkError]]:
    """Do the same for batches whose keys lie in different slots of a Cluster: one round trip per shard.

    Returns per batch its answers, or why there are none. `heard` also gets a key of the batch.
    """
    sent = yield Clock()
    replies = yield Calls([_renewing(grants, patience) for grants in batches])
    received = yield Clock()
    found: list[list[float | Refusal | None] | LockworkError] = []
    for grants, reply in zip(batches, replies, strict=True):
        if isinstance(reply, LockworkError):
            found.append(reply)
        else:
            heard(grants[0].key, sent, received, reply[-1] / 1_000_000)
            found.append(_renewed(grants, reply, sent))
    return found


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
    """Return the error for one of many keys, from what the server said of it."""
    problem = said.decode(errors="replace")
    return ServerRefused(f"the key {key} contains data of another program ({problem}): use another prefix")


def local_deadline(sent: float, server_now: int, server_deadline: int) -> float:
    """Convert the server's deadline (us) to the client's clock (s)."""
    # The server read its clock after `sent`, so this is never later than the server's own deadline.
    return sent + (server_deadline - server_now) / 1_000_000


def handed(grant: Sequence[int], sent: float, server_now: int, now: float) -> Granted:
    """Return the grant of a hand-over: its fence and the server's deadline, told by the difference to our last call.

    A claim is all that it gives: more is left of it only by a clock that was set forward since that call.
    """
    fence, ends = grant
    return Granted(fence, min(local_deadline(sent, server_now, ends), now + CLAIM_MS / 1000), waited=True)
