"""Quorum locks in virtual time: clients that acquire, renew, extend, hang and die, and the rules."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random
from typing import Any

from locks.simulation.quorum_actors import BEGIN, LEASES, Client, Counting, Nodes, Renewing, first
from lockwork.errors import LockworkError
from lockwork.protocol.effects import Clock
from lockwork.protocol.locks import grants, quorum
from lockwork.protocol.locks.grants import Request
from lockwork.protocol.locks.quorum import Everywhere, Pause, QuorumGranted, Rounds
from simulator.faults import MS, SECOND
from simulator.runs import RELEASED
from simulator.server import Build, Server
from simulator.world import Broken

_PATIENCE = 0.5


class Quorums:
    """One run."""

    def __init__(self, server: Server, seed: int, build: Build, counting: Counting) -> None:
        server.reset()
        self.random: Random = Random(seed)
        self.nodes = Nodes(server, self.random, build)
        self.now: int = BEGIN
        self.trace: list[str] = []
        self.fence: int = 0
        self.granted: int = 0
        self.kept: int = 0
        """Grants that lasted longer than their first lease."""
        self._counting = counting
        self._incidents = self.random.choice([0.0, 0.005, 0.02])
        self._requests = itertools.count()
        self._names = (f"c{number}" for number in itertools.count())
        self._clients = [Client(next(self._names)) for _ in range(3)]

    @property
    def clock(self) -> float:
        """The clients' clock, in seconds."""
        return self.now / SECOND

    def run(self, steps: int) -> None:
        """Run this number of random events; raises Broken."""
        for _ in range(steps):
            pace = self.random.random()
            self.now += self.random.randint(0, 2500 * MS if pace < 0.01 else 150 * MS if pace < 0.1 else 5 * MS)
            client = self.random.choice(self._clients)
            if self.random.random() < self._incidents:
                self._incident(client)
            elif client.paused_until > self.now:
                self._arrive(client)
            elif client.votes and self.random.random() < 0.5:
                self._renew(client)
            else:
                self._step(client)

    def at_end(self) -> None:
        """Check that the lock is free when all clients are dead and their leases have ended."""
        for client in list(self._clients):
            self._kill(client)
        self.nodes.loss = 0.0
        self.now += 20 * SECOND
        last = self._clients[0]
        before = self.granted
        self._ask(last, 0)
        while last.rounds is not None:
            self._step(last)
        if self.granted == before:
            raise Broken("L4: all have died, and nobody gets the lock")

    # -- what goes wrong --------------------------------------------------------------------------------------------

    def _incident(self, client: Client) -> None:
        what, node = self.random.randrange(4), self.random.randrange(self.nodes.count)
        if what == 0:
            self._kill(client)
        elif what == 1:
            client.paused_until = self.now + self.random.randint(0, 4 * SECOND)
            self._note(client, f"PAUSED for {(client.paused_until - self.now) / SECOND:.2f} s")
        else:
            self._note(client, f"server {node} GOES AWAY{' and comes back EMPTY' if what == 3 else ''}")
            self.nodes.go_away(node, self.now, empty=what == 3)

    def _kill(self, client: Client) -> None:
        """Kill a client. Its sent calls may still arrive."""
        self._note(client, "KILLED")
        while (client.calls or client.renewing) and self.random.random() < 0.7:
            self._arrive(client)
            client.renewing = {node: one for node, one in client.renewing.items() if not one.arrived}
        if client.rounds is not None:
            client.rounds.close()
        self._clients[self._clients.index(client)] = Client(next(self._names))

    def _note(self, client: Client, what: str) -> None:
        self.trace.append(f"{self.clock:11.6f}  {client.name:<4}  {what}")

    # -- calls on their way -----------------------------------------------------------------------------------------

    def _arrive(self, client: Client) -> None:
        """Let a call of a client arrive. The client reads the answer in a later step."""
        renewing = [node for node, one in client.renewing.items() if not one.arrived]
        if client.calls and (not renewing or self.random.random() < 0.7):
            node = self.random.choice(list(client.calls))
            assert client.answers is not None
            client.answers[node] = self.nodes.answer(node, *client.calls.pop(node), self.now)
            self._note(client, f"server {node}: {client.answers[node]}")
        elif renewing:
            node = self.random.choice(renewing)
            one = client.renewing[node]
            one.answer, one.arrived = self.nodes.answer(node, one.protocol, one.call, self.now), True
            self._note(client, f"server {node} renews: {one.answer}")

    def _renew(self, client: Client) -> None:
        """Renew the votes of a server, as its engine does."""
        node = self.random.choice(list(client.votes))
        book, one = client.books[node], client.renewing.get(node)
        if one is None:
            if due := book.due(self.clock):
                protocol = grants.renew([lease.wish for lease in due], 0.0)
                client.renewing[node] = Renewing(protocol, first(protocol, self.clock), due)
        elif not one.arrived:
            self._arrive(client)
        else:
            del client.renewing[node]
            before = client.ends(self._counting, self.nodes.count)
            if one.answer is None:
                book.postponed(one.leases, self.clock)
            else:
                book.renewed(one.leases, one.answer, self.clock)
            self._longer(client, before)

    # -- what clients do ----------------------------------------------------------------------------------------------

    def _step(self, client: Client) -> None:
        if client.calls:
            self._arrive(client)
        elif client.answers is not None:
            answers, client.answers = client.answers, None
            self._resume(client, answers)
        elif client.rounds is not None:
            if self.clock >= client.until:
                self._resume(client, None)
        elif client.fence is None:
            self._ask(client, self.random.choice([0, 1, 5]))
        elif (draw := self.random.random()) < 0.04:
            self._end(client)
        elif draw < 0.06:
            votes, before = client.votes, client.ends(self._counting, self.nodes.count)
            asked = {node: client.requests[node] for node in votes}
            extending = quorum.extend(asked, client.fence, client.requests[0].lease_ms, _PATIENCE)
            self._begin(client, extending, lambda deadlines: self._extended(client, votes, deadlines, before))

    def _ask(self, client: Client, wait: float) -> None:
        number, lease_ms = next(self._requests), self.random.choice(LEASES)
        renewed = self.random.random() < 0.7
        client.requests = [
            Request(self.nodes.key(node), "x", f"{client.name}~{number}", f"r{number}", "sim:wake:x", lease_ms, renewed)
            for node in range(self.nodes.count)
        ]
        acquiring = quorum.acquire(client.requests, wait, _PATIENCE, 0.2)
        self._begin(client, acquiring, lambda granted: self._won(client, granted))

    def _end(self, client: Client) -> None:
        assert client.fence is not None
        fence = client.fence
        client.put_down()
        if self.random.random() < 0.8:  # else it lets its leases end
            asked = dict(enumerate(client.requests))
            self._begin(client, quorum.release(asked, fence, self.nodes.count, _PATIENCE), lambda _: None)

    def _begin(self, client: Client, rounds: Rounds[Any], then: Any) -> None:
        client.rounds, client.then = rounds, then
        self._resume(client, None)

    def _resume(self, client: Client, value: Any) -> None:
        while True:
            try:
                effect = client.rounds.send(value)
            except StopIteration as done:
                client.rounds = None
                client.then(done.value)
                return
            except LockworkError as error:
                client.rounds = None
                self._note(client, type(error).__name__)
                return
            if isinstance(effect, Clock):
                value = self.clock
            elif isinstance(effect, Pause):
                client.until = self.clock + self.random.uniform(0, effect.most)
                return
            else:
                assert isinstance(effect, Everywhere)
                client.calls = {
                    node: (protocol, first(protocol, self.clock)) for node, protocol in effect.protocols.items()
                }
                client.answers = {}
                return

    # -- rules --------------------------------------------------------------------------------------------------------

    def _won(self, client: Client, granted: QuorumGranted) -> None:
        client.hold(granted, self.clock)
        self._note(client, f"HOLDS {granted.fence} until {client.ends(self._counting, self.nodes.count):.6f}")
        self._alone(client)
        if granted.fence <= self.fence:
            raise Broken(f"L2: fence {granted.fence} after {self.fence}")
        self.fence = granted.fence
        self.granted += 1

    def _extended(
        self, client: Client, votes: dict[int, Any], deadlines: dict[int, float | None], before: float
    ) -> None:
        if client.votes is not votes:
            return
        for node, deadline in deadlines.items():
            if deadline is None:
                client.books[node].lose(votes[node])
            elif not votes[node].lost:
                votes[node].deadline = max(votes[node].deadline, deadline)
                client.books[node].moved(votes[node])
        self._longer(client, before)

    def _longer(self, client: Client, before: float) -> None:
        ends = client.ends(self._counting, self.nodes.count)
        if ends > max(before, self.clock):
            self._note(client, f"KEEPS {client.fence} until {ends:.6f}")
            self.kept += 1
            self._alone(client)

    def _alone(self, client: Client) -> None:
        """Check that no other client relies on the lock."""
        if client.ends(self._counting, self.nodes.count) <= self.clock:
            return
        for other in self._clients:
            if other is not client and other.ends(self._counting, self.nodes.count) > self.clock:
                raise Broken(f"L1: {client.name} holds {client.fence} while {other.name} counts on {other.fence}")


def run(
    server: Server, seed: int, build: Build = RELEASED, counting: Counting = quorum.validity, steps: int = 600
) -> Quorums:
    """Three clients and three or five servers; raises Broken."""
    world = Quorums(server, seed, build, counting)
    try:
        world.run(steps)
        world.at_end()
    except Broken as rule:
        last = "\n".join(world.trace[-80:])
        raise Broken(f"{rule}\nseed {seed}, {build.name}, {world.nodes.count} servers\n{last}") from None
    return world


def check_grants(runs: Sequence[Quorums]) -> None:
    """Check that locks are granted in these runs, and kept beyond their first lease."""
    assert sum(run.granted for run in runs) >= len(runs), "a run in which nobody gets anything proves nothing"
    assert len(runs) == 1 or sum(run.kept for run in runs) >= len(runs) / 4, "nor one in which nothing is renewed"
