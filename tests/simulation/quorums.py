"""Quorum locks in virtual time: three or five servers with clocks of their own, whose calls and replies may be lost.

Every server is a prefix of one real server: their keys are independent, and each script is told its server's time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from lockwork.errors import LockworkError
from lockwork.protocol import keys, quorum
from lockwork.protocol.effects import Call, Clock
from lockwork.protocol.grants import Request
from lockwork.protocol.quorum import Everywhere, Pause, QuorumGranted
from simulation.faults import MS, SECOND
from simulation.runs import RELEASED
from simulation.server import Build, Server
from simulation.world import EPOCH, Broken

TWINS = (
    Build("the fence is not raised", (("lock_raise", "redis.call('HSET', KEYS[1], 'f', ARGV[3])", "local _ = 1"),)),
    Build(
        "another's grant is taken for one's own",
        (("lock_raise", "held[1] ~= ARGV[1] or held[2] ~= ARGV[2] or deadline", "deadline"),),
    ),
    Build(
        "servers grant what is held",
        (("parts/ask", "if held[1] and deadline > now then", "if held[1] == owner and deadline > now then"),),
    ),
    Build("whoever abandons ends any grant", (("lock_abandon", "held[1] == ARGV[1] and held[2] == ARGV[2] and", ""),)),
)


@dataclass
class _Client:
    """One task: its rounds, and the calls of the present round that were not yet made."""

    name: str
    rounds: Any = None
    lease_ms: int = 0
    calls: dict[int, tuple[Any, Call]] = field(default_factory=dict)
    answers: dict[int, Any] = field(default_factory=dict)
    until: float = 0.0
    requests: list[Request] = field(default_factory=list)
    belief: tuple[int, float] | None = None
    """The fence and the end of the grant that it counts on."""


class Quorums:
    """One run."""

    def __init__(self, server: Server, seed: int, build: Build) -> None:
        server.reset()
        self.random: Random = Random(seed)
        self.server = server
        self.build = build
        self.now: int = 1000 * SECOND
        self.servers: int = self.random.choice([3, 5])
        self.skews = [self.random.randint(-SECOND, SECOND) for _ in range(self.servers)]
        self.loss = self.random.choice([0.0, 0.1, 0.3])
        self.fence: int = 0
        self.granted: int = 0
        self.count = 0
        self.clients = [_Client(f"c{number}") for number in range(3)]

    @property
    def clock(self) -> float:
        """The clients' clock, in seconds."""
        return self.now / SECOND

    def run(self, steps: int) -> None:
        """Let chance choose who goes on, so many times; raises Broken."""
        for _ in range(steps):
            slow = self.random.random() < 0.02
            self.now += self.random.randint(0, 2500 * MS if slow else 5 * MS)
            self._step(self.random.choice(self.clients))

    def _step(self, client: _Client) -> None:
        if client.calls:
            node = self.random.choice(list(client.calls))
            client.answers[node] = self._answer(node, *client.calls.pop(node))
            if not client.calls:
                self._resume(client, client.answers)
        elif client.belief is not None:
            if self.random.random() < 0.4:  # else it goes on holding
                fence, _ = client.belief
                client.belief = None
                asked = dict(enumerate(client.requests))
                if self.random.random() < 0.8:  # else it lets its leases end
                    client.rounds = quorum.release(asked, fence, self.servers, 0.5)
                    self._resume(client, None)
        elif client.rounds is None:
            self._ask(client)
        elif self.clock >= client.until:
            self._resume(client, None)

    def _ask(self, client: _Client) -> None:
        self.count += 1
        client.lease_ms = self.random.choice([500, 2000])
        client.requests = [
            Request(keys.quorum(f"sim{node}", "x"), "x", f"{client.name}~{self.count}", f"r{self.count}", "sim:wake:x",
                    client.lease_ms, False) for node in range(self.servers)
        ]  # fmt: skip
        client.rounds = quorum.acquire(client.requests, self.random.choice([0, 1, 5]), 0.5, 0.2)
        self._resume(client, None)

    def _resume(self, client: _Client, value: Any) -> None:
        while True:
            try:
                effect = client.rounds.send(value)
            except StopIteration as done:
                client.rounds = None
                if isinstance(done.value, QuorumGranted):
                    self._won(client, done.value)
                return
            except LockworkError:
                client.rounds = None
                return
            if isinstance(effect, Clock):
                value = self.clock
            elif isinstance(effect, Pause):
                client.until = self.clock + self.random.uniform(0, effect.most)
                return
            else:
                assert isinstance(effect, Everywhere)
                client.calls = {node: (protocol, self._first(protocol)) for node, protocol in effect.protocols.items()}
                client.answers = {}
                return

    def _first(self, protocol: Any) -> Call:
        effect = next(protocol)
        while isinstance(effect, Clock):
            effect = protocol.send(self.clock)
        assert isinstance(effect, Call)
        return effect

    def _answer(self, node: int, protocol: Any, call: Call) -> Any:
        lost = self.random.random() < self.loss
        if lost and self.random.random() < 0.5:
            return None
        now = EPOCH + self.now + self.skews[node]
        reply = self.server.run(self.build.script(call.script.name), call.keys, call.args, now).reply
        if lost:
            return None
        try:
            protocol.send(reply)
        except StopIteration as done:
            return done.value
        raise AssertionError("one call for each server and round")

    def _won(self, client: _Client, granted: QuorumGranted) -> None:
        ends = quorum.validity([vote.deadline for vote in granted.votes.values()], self.servers, client.lease_ms)
        for other in self.clients:
            if other.belief is not None and other.belief[1] > self.clock:
                raise Broken(
                    f"L1: {client.name} was granted {granted.fence} while {other.name} counts on {other.belief}"
                )
        if granted.fence <= self.fence:
            raise Broken(f"L2: fence {granted.fence} after {self.fence}")
        self.fence = granted.fence
        self.granted += 1
        client.belief = granted.fence, ends


def run(server: Server, seed: int, build: Build = RELEASED) -> Quorums:
    """Three clients and three or five servers; raises Broken."""
    world = Quorums(server, seed, build)
    try:
        world.run(400)
    except Broken as rule:
        raise Broken(f"{rule}\nseed {seed}, {build.name}, {world.servers} servers") from None
    return world
