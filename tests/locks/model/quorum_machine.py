"""A plain Python model of a quorum of three servers: the state of each server, and the holder with a majority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.errors import LockTimeout, ServerUnavailable
from lockwork.protocol import keys
from lockwork.protocol.effects import Call, Clock, script_call
from lockwork.protocol.locks import quorum
from lockwork.protocol.locks.grants import Request
from lockwork.protocol.locks.quorum import Everywhere, QuorumGranted, Rounds
from models.bench import CHANNEL, SECOND, Bench

_NODES = range(3)
_MAJORITY = 2
_CLIENTS = ["ann", "bob", "eve"]
_LEASES = [1000, 4000]
_PATIENCE = 0.5
_FATES = st.sampled_from(["answers", "answers", "answers", "answers", "answers late", "is not heard", "hears nothing"])
_GAPS = st.sampled_from([0, 0, 0, 985_000, 992_000, 2 * SECOND])
"""Microseconds between two rounds: a lease of one second then surely lasts, may have ended, or has surely ended."""


@dataclass
class _Node:
    """The grant that one server stores."""

    owner: str = ""
    request: str = ""
    fence: int = 0
    ends: int = 0

    def does(self, call: Call, now: int) -> Any:
        """Predict the reply to a call, and apply its effect."""
        args = call.args
        if call.script.name == "locks/release":
            return self._release(str(args[1]), int(args[2]), now)
        if call.script.name == "locks/renew":
            mine = (self.owner, self.fence) == (args[0], args[1]) and self.ends > now
            self.ends = max(self.ends, now + int(args[2]) * 1000) if mine else self.ends
            return [self.ends if mine else 0, now]
        owner, request, more = str(args[0]), str(args[1]), int(args[2]) if len(args) > 2 else 0
        mine = (self.owner, self.request) == (owner, request)
        if call.script.name == "locks/acquire":
            return self._acquire(owner, request, more * 1000, now)
        if call.script.name == "locks/raise_fence":
            if not mine or self.ends <= now:
                return [0, 0, now]
            self.fence = max(self.fence, more)
            return [1, self.ends, now]
        assert call.script.name == "locks/abandon"
        self.ends = 0 if mine else self.ends
        return 1

    def _acquire(self, owner: str, request: str, lease: int, now: int) -> list[int]:
        if self.ends > now:
            return [0, 0, now]  # an owner asks only once, so the grant belongs to another one
        self.owner, self.request, self.fence, self.ends = owner, request, max(self.fence + 1, now), now + lease
        return [1, self.fence, self.ends, now]

    def _release(self, owner: str, fence: int, now: int) -> int:
        if (self.owner, self.fence) != (owner, fence) or not self.ends:
            return 0
        in_time, self.ends = self.ends > now, 0
        return int(in_time)


@dataclass
class _Holder:
    """A client's grant, and the end of each server's vote (us)."""

    requests: list[Request]
    fence: int
    votes: dict[int, int]

    def until(self) -> float:
        """Return when the holder can no longer rely on a majority, in us. Clocks may differ by 1% of the lease plus 2
        ms.
        """
        lease = self.requests[0].lease_ms * 1000
        ends = sorted(self.votes.values(), reverse=True)
        return ends[_MAJORITY - 1] - lease / 100 - 2000 if len(ends) >= _MAJORITY else float("-inf")


class QuorumMachine(RuleBasedStateMachine):
    """Clients with one request at a time, calls and replies that get lost, and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.nodes = [_Node() for _ in _NODES]
        self.holders: dict[str, _Holder] = {}
        self.fence = 0
        self.asked = 0
        self.rounds: list[dict[int, Any]] = []
        """Replies of the servers in each round of the current operation. None: the client did not receive the reply."""

    # -- the driver ---------------------------------------------------------------------------------------------------

    def _run(self, data: st.DataObject, rounds: Rounds[Any]) -> Any:
        """Run rounds to their end; raises the error of the operation."""
        self.rounds = []
        value: Any = None
        while True:
            try:
                effect = rounds.send(value)
            except StopIteration as done:
                return done.value
            if isinstance(effect, Clock):
                value = self.bench.now / SECOND
                continue
            assert isinstance(effect, Everywhere), "who does not wait asks once"
            if self.rounds:
                self._meanwhile(data)
            self.rounds.append({})
            value = {node: self._ask(data.draw(_FATES), effect, node) for node in effect.protocols}

    def _meanwhile(self, data: st.DataObject) -> None:
        """Let time pass between two rounds; then perhaps another client acquires the lock on one server, and dies."""
        gap = data.draw(_GAPS)
        self.bench.now += gap
        if gap and data.draw(st.booleans()):
            self.asked += 1
            node, args = (
                data.draw(st.sampled_from(_NODES)),
                (f"zoe~{self.asked}", f"r{self.asked}", 1000, 4000, 0, CHANNEL),
            )
            self._call(node, script_call("locks/acquire", keys.quorum(f"sim{node}", "a"), args))

    def _ask(self, fate: str, effect: Everywhere, node: int) -> Any:
        protocol = effect.protocols[node]
        call = next(protocol)
        while isinstance(call, Clock):
            call = protocol.send(self.bench.now / SECOND)
        assert isinstance(call, Call)
        self.rounds[-1][node] = None
        if fate == "hears nothing":
            return None
        reply = self._call(node, call)
        if fate == "answers late" and node in effect.undo and isinstance(reply, list) and reply[0]:
            self._call(node, effect.undo[node])
        if fate != "answers":
            return None
        self.rounds[-1][node] = reply
        try:
            protocol.send(reply)
        except StopIteration as done:
            return done.value
        raise AssertionError("one call for each server and round")

    def _call(self, node: int, call: Call) -> Any:
        reply = self.bench.call(call)
        assert reply == self.nodes[node].does(call, self.bench.now), f"what server {node} says"
        return reply

    # -- rules --------------------------------------------------------------------------------------------------------

    @rule(data=st.data(), client=st.sampled_from(_CLIENTS), lease_ms=st.sampled_from(_LEASES))
    def acquire(self, data: st.DataObject, client: str, lease_ms: int) -> None:
        """Acquire as a new owner; a client that held the lock forgets that grant, as if it had died."""
        self.holders.pop(client, None)
        self.asked += 1
        requests = [
            Request(
                keys.quorum(f"sim{node}", "a"), "a", f"{client}~{self.asked}", f"r{self.asked}", CHANNEL, lease_ms, True
            )
            for node in _NODES
        ]
        error, granted = None, None
        try:
            granted = self._run(data, quorum.acquire(requests, 0, _PATIENCE, 0.2))
        except (LockTimeout, ServerUnavailable) as raised:
            error = raised
        given = {node: reply for node, reply in self.rounds[0].items() if reply is not None and reply[0]}
        raised_at = self._raised(given)
        holder = _Holder(requests, max((reply[1] for reply in given.values()), default=0), raised_at)
        if holder.until() > self.bench.now:
            self._won(client, holder, granted)
            return
        assert granted is None, "no grant without a majority"
        answered = sum(reply is not None for reply in self.rounds[0].values())
        assert isinstance(error, LockTimeout if answered >= _MAJORITY else ServerUnavailable)

    def _raised(self, given: dict[int, list[int]]) -> dict[int, int]:
        """Return the servers that surely stored the raised fence, with the end of their grant."""
        if len(given) < _MAJORITY:
            return {}
        return {node: reply[1] for node, reply in self.rounds[1].items() if reply is not None and reply[0]}

    def _won(self, client: str, holder: _Holder, granted: QuorumGranted | None) -> None:
        assert granted is not None, "a majority grants it"
        assert granted.fence == holder.fence > self.fence, "the fence rises"
        assert set(granted.votes) == set(holder.votes)
        assert all(_near(vote.deadline, holder.votes[node]) for node, vote in granted.votes.items())
        assert all(self.nodes[node].fence == holder.fence for node in holder.votes), "who votes has the fence"
        self.fence = holder.fence
        self.holders[client] = holder
        self._alone()

    def _alone(self) -> None:
        assert sum(holder.until() > self.bench.now for holder in self.holders.values()) <= 1, "two holders"

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), lease_ms=st.sampled_from(_LEASES))
    def extend(self, data: st.DataObject, lease_ms: int) -> None:
        holder = self.holders[data.draw(st.sampled_from(sorted(self.holders)))]
        asked = {node: holder.requests[node] for node in holder.votes}
        deadlines = self._run(data, quorum.extend(asked, holder.fence, lease_ms, _PATIENCE))
        answers = {node: reply for node, reply in self.rounds[0].items() if reply is not None}
        assert set(deadlines) == set(answers)
        for node, reply in answers.items():
            deadline = deadlines[node]
            if reply[0]:
                assert deadline is not None
                assert _near(deadline, reply[0])
                holder.votes[node] = reply[0]
            else:
                assert deadline is None, "a server has said that it is over"
                del holder.votes[node]
        self._alone()

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        holder = self.holders.pop(data.draw(st.sampled_from(sorted(self.holders))))
        asked = {node: holder.requests[node] for node in holder.votes}
        in_time = self._run(data, quorum.release(asked, holder.fence, len(_NODES), _PATIENCE))
        over = sum(reply == 0 for reply in self.rounds[0].values())
        assert in_time == (len(holder.votes) - over >= _MAJORITY), "whether it was still a majority's"
        heard = [node for node, reply in self.rounds[0].items() if reply is not None]
        assert all(
            self.nodes[node].ends == 0 for node in heard if self.nodes[node].owner == holder.requests[node].owner
        )

    @rule(microseconds=st.sampled_from([1, 900_000, SECOND, 5 * SECOND]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule(node=st.sampled_from(_NODES))
    def comes_back_empty(self, node: int) -> None:
        """Lose a server's data. The longest lease passes first, as the quorum requires."""
        self.bench.now += max(_LEASES) * 1000
        self.bench.lose(keys.quorum(f"sim{node}", "a"))
        self.nodes[node] = _Node()


def _near(deadline: float, ends: int) -> bool:
    """Return True if a deadline on the client's clock is at most 10 us before the server's."""
    return 0 <= ends - deadline * SECOND <= 10
