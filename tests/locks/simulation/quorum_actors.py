"""Clients of quorum locks in virtual time, and servers with drifting clocks, lost calls and outages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from lockwork.protocol import keys
from lockwork.protocol.effects import Call, Clock
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Renewal, Request
from lockwork.protocol.locks.leases import Lease, LeaseBook
from lockwork.protocol.locks.quorum import QuorumGranted
from simulator.faults import SECOND
from simulator.server import Build, Server
from simulator.world import EPOCH

BEGIN = 1000 * SECOND
LEASES = (500, 2000)
Counting = Callable[[Sequence[float], int, int], float]
"""Returns the end of a holder's majority from its votes' deadlines, the number of servers and its lease (ms)."""


class Nodes:
    """The servers: each is a key prefix on one real server, and gives its own time to the scripts."""

    def __init__(self, server: Server, random: Random, build: Build) -> None:
        self.count: int = random.choice([3, 5])
        self.loss: float = random.choice([0.0, 0.1, 0.3])
        self._server = server
        self._random = random
        self._build = build
        self._skews = [random.randint(-SECOND, SECOND) for _ in range(self.count)]
        self._rates = [random.uniform(-0.008, 0.008) for _ in range(self.count)]
        self._away = [0] * self.count

    def key(self, node: int) -> str:
        """Return the lock's key on a server."""
        return keys.quorum(f"sim{node}", "x")

    def go_away(self, node: int, now: int, *, empty: bool) -> None:
        """Let a server not answer for a while.

        A server that loses its data stays away for longer than any lease, as the protocol requires.
        """
        self._away[node] = now + int(
            self._random.uniform(5, 8) * SECOND if empty else self._random.uniform(0, 4) * SECOND
        )
        if empty:
            self._server.command("DEL", self.key(node))

    def answer(self, node: int, protocol: Any, call: Call, now: int) -> Any:
        """Run a call, and return its protocol's result; None if the call or its reply is lost."""
        lost = self._random.random() < self.loss
        if self._away[node] > now or (lost and self._random.random() < 0.5):
            return None
        there = EPOCH + now + self._skews[node] + int((now - BEGIN) * self._rates[node])
        reply = self._server.run(self._build.script(call.script.name), call.keys, call.args, there).reply
        if lost:
            return None
        try:
            protocol.send(reply)
        except StopIteration as done:
            return done.value
        raise AssertionError("one call for each server and round")


def first(protocol: Any, clock: float) -> Call:
    """Run a protocol up to its call."""
    effect = next(protocol)
    while isinstance(effect, Clock):
        effect = protocol.send(clock)
    assert isinstance(effect, Call)
    return effect


@dataclass
class Renewing:
    """A call in flight that renews leases at one server."""

    protocol: Any
    call: Call
    leases: list[Lease]
    arrived: bool = False
    answer: Any = None


class Vote(Lease):
    """One server's lease."""

    __slots__ = ()

    def __init__(self, asked: Request, granted: grants.Granted, fence: int, now: float) -> None:
        renewal = Renewal(asked.key, asked.owner, fence, asked.lease_ms)
        super().__init__(renewal, granted, now, renewed=asked.renewed, on_lost=lambda: None)


@dataclass(eq=False)
class Client:
    """One process with one task: its rounds, the calls of the present round, and its votes."""

    name: str
    paused_until: int = 0
    rounds: Any = None
    then: Callable[[Any], None] = lambda _: None
    """Receives the result of the rounds."""
    until: float = 0.0
    calls: dict[int, tuple[Any, Call]] = field(default_factory=dict)
    """Calls of the present round that have not arrived."""
    answers: dict[int, Any] | None = None
    """Answers of the present round."""
    requests: list[Request] = field(default_factory=list)
    fence: int | None = None
    """Fence of its grant."""
    votes: dict[int, Vote] = field(default_factory=dict)
    books: dict[int, LeaseBook] = field(default_factory=dict)
    """The engine's lease book for each server."""
    renewing: dict[int, Renewing] = field(default_factory=dict)

    def hold(self, granted: QuorumGranted, clock: float) -> None:
        """Rely on a grant from now on, and renew its votes."""
        self.fence = granted.fence
        self.votes = {
            node: Vote(self.requests[node], vote, granted.fence, clock) for node, vote in granted.votes.items()
        }
        for node, vote in self.votes.items():
            self.books.setdefault(node, LeaseBook()).add(vote)

    def put_down(self) -> None:
        """Forget the grant, and stop the renewal of its votes."""
        for node, vote in self.votes.items():
            self.books[node].remove(vote)
        self.fence, self.votes = None, {}

    def ends(self, counting: Counting, servers: int) -> float:
        """Return the time (client clock, seconds) when its majority ends; -inf without a grant."""
        if self.fence is None:
            return float("-inf")
        return counting(
            [vote.deadline for vote in self.votes.values() if not vote.lost], servers, self.requests[0].lease_ms
        )
