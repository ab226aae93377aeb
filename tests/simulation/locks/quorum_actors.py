"""Who uses quorum locks in virtual time, and the servers: their clocks run apart, they lose calls and go away."""

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
from simulation.faults import SECOND
from simulation.server import Build, Server
from simulation.world import EPOCH

BEGIN = 1000 * SECOND
LEASES = (500, 2000)
Counting = Callable[[Sequence[float], int, int], float]
"""How a holder counts until when it has a majority, of its votes' deadlines, the number of servers and its lease."""


class Nodes:
    """Every server is a prefix of one real server: keys are independent, and each script is told its server's time."""

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
        """The lock's key there."""
        return keys.quorum(f"sim{node}", "x")

    def go_away(self, node: int, now: int, *, empty: bool) -> None:
        """Let it not answer for a while; one that comes back empty stays away for longer than any lease, as it must."""
        self._away[node] = now + int(
            self._random.uniform(5, 8) * SECOND if empty else self._random.uniform(0, 4) * SECOND
        )
        if empty:
            self._server.command("DEL", self.key(node))

    def answer(self, node: int, protocol: Any, call: Call, now: int) -> Any:
        """Let a call arrive, and return what its protocol makes of the reply; None when one of both is lost."""
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
    """A call that renews some leases at one server, on its way."""

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
    """One process with one task: its rounds, the calls of the present round, and what it holds."""

    name: str
    paused_until: int = 0
    rounds: Any = None
    then: Callable[[Any], None] = lambda _: None
    """What to do with the result of the rounds."""
    until: float = 0.0
    calls: dict[int, tuple[Any, Call]] = field(default_factory=dict)
    """Those of the present round that have not arrived."""
    answers: dict[int, Any] | None = None
    """Those of the present round so far."""
    requests: list[Request] = field(default_factory=list)
    fence: int | None = None
    """That of the grant which it holds."""
    votes: dict[int, Vote] = field(default_factory=dict)
    books: dict[int, LeaseBook] = field(default_factory=dict)
    """What its engine keeps for each server."""
    renewing: dict[int, Renewing] = field(default_factory=dict)

    def hold(self, granted: QuorumGranted, clock: float) -> None:
        """Keep what was granted."""
        self.fence = granted.fence
        self.votes = {
            node: Vote(self.requests[node], vote, granted.fence, clock) for node, vote in granted.votes.items()
        }
        for node, vote in self.votes.items():
            self.books.setdefault(node, LeaseBook()).add(vote)

    def put_down(self) -> None:
        """Count on it no longer, and renew it no longer."""
        for node, vote in self.votes.items():
            self.books[node].remove(vote)
        self.fence, self.votes = None, {}

    def ends(self, counting: Counting, servers: int) -> float:
        """Until when it counts on what it holds."""
        if self.fence is None:
            return float("-inf")
        return counting(
            [vote.deadline for vote in self.votes.values() if not vote.lost], servers, self.requests[0].lease_ms
        )
