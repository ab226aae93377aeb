"""A lock on a majority of independent servers (Redlock), with a fence that rises.

The protocol runs above those of the single servers: it yields rounds, in which every server is asked at the same time.

Why the fence rises. A grant counts only when a majority of the servers have its fence F in their books: in a first
round they grant, each with a fence of its own, and in a second one they raise it to F, the highest of these. The next
grant needs a majority, too. Two majorities share a server; there the earlier grant left F, and a server grants only
with a fence above what it has. So the highest of the next grant is above F. This holds as long as that server
remembers F: a lock's key outlives its last grant by a minute, and after that a fence is at least the server's time,
so it also holds when the servers' clocks differ by less than that minute. A server that comes back empty may break
exclusion: see locks/quorum.py.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lockwork import words
from lockwork.errors import LockTimeout, ServerUnavailable
from lockwork.protocol.effects import Call, Clock, Protocol, script_call
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import CLAIM_MS, Granted, Request, local_deadline
from lockwork.protocol.scripts import codes

Node = int
"""A server, by its place in the list."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """Run a protocol at each of these servers at once; the result has an entry for each: its result, or its error.

    What takes longer than `patience` seconds counts as failed, and its result as None; if it then ends after all,
    `undo` is run there.
    """

    protocols: Mapping[Node, Protocol[Any]]
    patience: float
    undo: Mapping[Node, Call]


@dataclass(frozen=True, slots=True)
class Pause:
    """Let some time pass, between none and so many seconds, by chance: so two do not meet again and again."""

    most: float


T = TypeVar("T")
Rounds = Generator[Everywhere | Pause | Clock, Any, T]


@dataclass(frozen=True, slots=True)
class QuorumGranted:
    """A grant: each server's deadline, all with one fence."""

    fence: int
    votes: dict[Node, Granted]


def majority(servers: int) -> int:
    """How many of so many servers must agree."""
    return servers // 2 + 1


def drift(lease_ms: int) -> float:
    """Seconds by which the servers' clocks and ours may run apart during a lease."""
    return lease_ms / 1000 * 0.01 + 0.002


def validity(deadlines: Sequence[float], servers: int, lease_ms: int) -> float:
    """Until when a majority of leases run for certain: the deadline of the last that is needed, less the drift."""
    needed = majority(servers)
    if len(deadlines) < needed:
        return float("-inf")
    return sorted(deadlines, reverse=True)[needed - 1] - drift(lease_ms)


def acquire(asked: Sequence[Request], wait: float | None, patience: float, pause: float) -> Rounds[QuorumGranted]:
    """Get a majority's grant; `asked` says how each server is asked. Raises LockTimeout, or ServerUnavailable.

    Each try counts its validity from its own beginning. A try that failed is withdrawn everywhere before the next.
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
                shown = asked[0].shown
                if answered < majority(len(asked)):
                    raise ServerUnavailable(
                        f"{shown} needs {majority(len(asked))} of {len(asked)} servers, and {answered} answered"
                    )
                raise LockTimeout(f"{shown} was not granted by a majority of servers within {words.exact(wait)}")
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
    """Ask one server, without waiting there; False when it refuses."""
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
    """Let the leases last for `lease_ms` from now on; per server that answered, the new deadline, None when over."""
    renewing = {
        node: grants.renew([grants.Renewal(one.key, one.owner, fence, lease_ms)], patience)
        for node, one in asked.items()
    }
    answers = yield Everywhere(renewing, patience, {})
    return {node: answer[0] for node, answer in answers.items() if isinstance(answer, list)}


def release(asked: Mapping[Node, Request], fence: int, servers: int, patience: float) -> Rounds[bool]:
    """End the grant everywhere; False when so many servers saw that it was over that it was no majority's any more.

    A server that does not answer lets its lease run out.
    """
    ending = {node: grants.release(one.key, one.owner, fence, patience=patience) for node, one in asked.items()}
    answers = yield Everywhere(ending, patience, {})
    return sum(answer is not False for answer in answers.values()) >= majority(servers)
