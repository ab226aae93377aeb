"""A lock on a majority of independent servers (Redlock), with an increasing fence.

The protocol runs above the protocols of single servers: it yields rounds, and each round calls all servers
concurrently.

Why the fence increases: a grant counts only when a majority of the servers has stored its fence F. In the first round,
each server grants with a fence that it chooses. In the second round, these servers raise it to F, the highest of these
fences. The next grant needs a majority, too. Two majorities share a server. That server has stored F, and it grants
only with a higher fence. So the highest fence of the next grant is above F. This holds while that server remembers F: a
lock's key remains for a minute after its last grant, and later a fence is at least the server's time. So it also holds
when the servers' clocks differ by less than that minute. A server that restarts without its data may break mutual
exclusion: see locks/quorum.py.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lockwork import words
from lockwork.errors import LockTimeout, ServerUnavailable
from lockwork.protocol.effects import Call, Clock, Protocol, script_call
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import CLAIM_MS, Granted, Request, local_deadline
from lockwork.protocol.scripts import codes

Node = int
"""Index of a server in the list."""


class Everywhere(Struct, frozen=True):
    """Run a protocol on each of the servers concurrently; the result maps each server to its result or its error.

    A protocol that takes longer than `patience` seconds counts as failed, and its result is None. If it completes
    later, `undo` runs on that server.
    """

    protocols: Mapping[Node, Protocol[Any]]
    patience: float
    undo: Mapping[Node, Call]


class Pause(Struct, frozen=True):
    """Wait a random time of at most this many seconds, so that two callers do not collide repeatedly."""

    most: float


T = TypeVar("T")
Rounds = Generator[Everywhere | Pause | Clock, Any, T]


class QuorumGranted(Struct, frozen=True):
    """A grant: the deadline on each server, with the same fence."""

    fence: int
    votes: dict[Node, Granted]


def majority(servers: int) -> int:
    """Return the number of servers that must agree."""
    return servers // 2 + 1


def drift(lease_ms: int) -> float:
    """Return the possible drift (seconds) between the clocks of the servers and the client during a lease."""
    return lease_ms / 1000 * 0.01 + 0.002


def validity(deadlines: Sequence[float], servers: int, lease_ms: int) -> float:
    """Return the time until which a majority of leases is certainly alive: the earliest deadline of the required
    majority, minus the drift."""
    needed = majority(servers)
    if len(deadlines) < needed:
        return float("-inf")
    return sorted(deadlines, reverse=True)[needed - 1] - drift(lease_ms)


def acquire(asked: Sequence[Request], wait: float | None, patience: float, pause: float) -> Rounds[QuorumGranted]:
    """Acquire a grant from a majority; `asked` has the request for each server.

    Each attempt counts its validity from its own start. A failed attempt is withdrawn on all servers before the next.
    Raises LockTimeout, or ServerUnavailable.
    """
    began = yield Clock()
    undo = {node: _abandon(request) for node, request in enumerate(asked)}
    try:
        while True:
            granted, answered = yield from _try(asked, patience, undo)
            if granted is not None:
                return granted
            yield _withdrawal(asked, patience)
            now = yield Clock()
            if wait is not None and now - began >= wait:
                name = asked[0].shown
                if answered < majority(len(asked)):
                    raise ServerUnavailable(
                        f"{name} needs {majority(len(asked))} of {len(asked)} servers, and {answered} answered"
                    )
                raise LockTimeout(f"{name} was not granted by a majority of servers within {words.exact(wait)}")
            yield Pause(pause if wait is None else min(pause, began + wait - now))
    except (GeneratorExit, LockTimeout, ServerUnavailable):
        raise
    except BaseException:
        yield _withdrawal(asked, patience)
        raise


def _try(
    asked: Sequence[Request], patience: float, undo: Mapping[Node, Call]
) -> Rounds[tuple[QuorumGranted | None, int]]:
    needed = majority(len(asked))
    answers = yield Everywhere({node: _ask(one, patience) for node, one in enumerate(asked)}, patience, undo)
    answered = [answer for answer in answers.values() if answer is not None and not isinstance(answer, Exception)]
    votes: dict[Node, Granted] = {node: vote for node, vote in answers.items() if isinstance(vote, Granted)}
    if len(votes) < needed:
        return None, len(answered)
    fence = max(vote.fence for vote in votes.values())
    raising = {node: _raise(asked[node], fence, patience) for node in votes}
    answers = yield Everywhere(raising, patience, undo)
    raised: dict[Node, Granted] = {node: vote for node, vote in answers.items() if isinstance(vote, Granted)}
    now = yield Clock()
    deadlines = [vote.deadline for vote in raised.values()]
    if validity(deadlines, len(asked), asked[0].lease_ms) <= now:
        return None, len(answered)
    return QuorumGranted(fence, raised), len(answered)


def _ask(asked: Request, patience: float) -> Protocol[Granted | bool]:
    """Request a grant from one server, without waiting; return False when the server refuses."""
    args = (asked.owner, asked.request, asked.lease_ms, CLAIM_MS, 0, asked.channel)
    while True:
        sent = yield Clock()
        reply = yield script_call("locks/acquire", asked.key, args, patience)
        if reply[0] == codes("locks/acquire").granted:
            return Granted(reply[1], local_deadline(sent, reply[3], reply[2]))
        if not reply[1]:
            return False


def _raise(asked: Request, fence: int, patience: float) -> Protocol[Granted | bool]:
    sent = yield Clock()
    args = (asked.owner, asked.request, fence)
    live, deadline, now = yield script_call("locks/raise_fence", asked.key, args, patience)
    return Granted(fence, local_deadline(sent, now, deadline)) if live else False


def _abandon(asked: Request) -> Call:
    return script_call("locks/abandon", asked.key, (asked.owner, asked.request), 1)


def _withdrawal(asked: Sequence[Request], patience: float) -> Everywhere:
    return Everywhere({node: _once(replace(_abandon(one), patience=patience)) for node, one in enumerate(asked)},
                      patience, {})  # fmt: skip


def _once(call: Call) -> Protocol[Any]:
    return (yield call)


def extend(
    asked: Mapping[Node, Request], fence: int, lease_ms: int, patience: float
) -> Rounds[dict[Node, float | None]]:
    """Renew the leases for `lease_ms` from now. Return per reachable server the new deadline, or None if it is over."""
    renewing = {
        node: grants.renew([grants.Renewal(one.key, one.owner, fence, lease_ms)], patience)
        for node, one in asked.items()
    }
    answers = yield Everywhere(renewing, patience, {})
    return {node: answer[0] for node, answer in answers.items() if isinstance(answer, list)}


def release(asked: Mapping[Node, Request], fence: int, servers: int, patience: float) -> Rounds[bool]:
    """End the grant on all servers. Return False if the grant had already ended on too many servers for a majority.

    On a server that does not reply, the lease expires.
    """
    ending = {node: grants.release(one.key, one.owner, fence, patience=patience) for node, one in asked.items()}
    answers = yield Everywhere(ending, patience, {})
    return sum(answer is not False for answer in answers.values()) >= majority(servers)
