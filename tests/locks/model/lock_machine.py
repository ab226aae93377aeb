"""A plain Python model of a lock and its waiters: order of grants, fences and deadlines."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lockwork.protocol import keys
from lockwork.protocol.effects import script_call
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import CLAIM_MS, Renewal
from lockwork.protocol.messages import numbers
from models.bench import CHANNEL, SECOND, Bench

_SECRET = "a waiter's secret"

_PLACE = 15 * SECOND
"""Lifetime of a waiter's place, in microseconds, unless the waiter asks again."""
_OWNERS = ["ann", "bob", "eve", "joe"]


@dataclass
class _Waiter:
    owner: str
    claim: int
    until: int


@dataclass
class _Grant:
    owner: str
    fence: int
    ends: int


class LockMachine(RuleBasedStateMachine):
    """Owners with one request at a time, and a clock."""

    key = keys.lock("sim", "a")

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.grant: _Grant | None = None
        self.line: list[_Waiter] = []
        self.fence = 0
        self.requests = dict.fromkeys(_OWNERS, 0)
        self.old: list[tuple[str, int]] = []
        self.expires = 0

    @invariant()
    def expires_after_its_use(self) -> None:
        """The key's expiry is 50 s after the lease and the waiters' places, less the time that the test takes."""
        left = self.bench.expiry(self.key)
        if left is not None:
            self.expires = self.bench.now + left * 1000
        used = [waiter.until for waiter in self.line if waiter.until > self.bench.now]
        if self.grant is not None and self._live():
            used.append(self.grant.ends)
        assert self.expires >= max(used, default=0) + (49 * SECOND if used else 0), "the key outlives its use"

    def _live(self) -> bool:
        return self.grant is not None and self.grant.ends > self.bench.now

    def _give(self, owner: str, microseconds: int, fence: int) -> _Grant:
        assert fence > self.fence, "the fence rises"
        self.fence = fence
        self.grant = given = _Grant(owner, fence, self.bench.now + microseconds)
        self.old.append((owner, fence))
        return given

    def _pass(self, mine: str = "") -> bool:
        """Free the lock and grant it to the first live waiter; `mine` counts as live. Return True if that waiter is
        `mine`.
        """
        self.grant = None
        while self.line:
            first = self.line.pop(0)
            if first.owner == mine:
                return True
            if first.until > self.bench.now:
                assert self.bench.messages, "the next in line is told"
                _, text = self.bench.messages[0]
                request = self._request(first.owner)
                assert text.partition(" ")[0] == request, "the line is served in order"
                handed = numbers(_SECRET, request, text.partition(" ")[2], 2)
                assert handed, "the server has sealed it"
                given = self._give(first.owner, first.claim, handed[0])
                assert handed[1] == given.ends, "a waiter has as long to claim as it asked for"
                return False
        return False

    def _request(self, owner: str) -> str:
        return f"{owner}{self.requests[owner]}"

    @rule(owner=st.sampled_from(_OWNERS), lease=st.sampled_from([500, 2000, 20_000]), wait=st.booleans())
    def acquire(self, owner: str, lease: int, wait: bool) -> None:
        self.bench.messages.clear()
        args = (owner, self._request(owner), lease, CLAIM_MS, int(wait), CHANNEL, _SECRET)
        code, *reply = self.bench.call(script_call("locks/acquire", self.key, args))
        if self._live():
            assert self.grant is not None
            if self.grant.owner == owner:
                self.grant.ends = max(self.grant.ends, self.bench.now + lease * 1000)
                assert (code, reply[0], reply[1]) == (1, self.grant.fence, self.grant.ends)
                return
        else:
            self._pass(owner)
            if self.grant is None:
                assert code == 1, "a lock that nobody else may have is granted"
                assert reply[1] == self._give(owner, lease * 1000, reply[0]).ends
                return
        assert code == 0, "a lock is not granted past another"
        place = next((waiter for waiter in self.line if waiter.owner == owner), None)
        if not wait:
            if place:
                self.line.remove(place)
            return
        assert 0 < reply[0] <= 5000
        if place is None:
            place = _Waiter(owner, 0, 0)
            self.line.append(place)
        place.claim, place.until = min(lease, CLAIM_MS) * 1000, self.bench.now + _PLACE

    @rule(owner=st.sampled_from(_OWNERS), twice=st.booleans())
    def abandon(self, owner: str, twice: bool) -> None:
        self.bench.messages.clear()
        call = script_call("locks/abandon", self.key, [owner, self._request(owner)])
        self.bench.call(call)
        if self.grant is not None and self.grant.owner == owner:
            self._pass()
        else:
            self.line = [waiter for waiter in self.line if waiter.owner != owner]
        self.requests[owner] += 1
        if twice:
            self.bench.call(call)

    @rule(owner=st.sampled_from(_OWNERS), data=st.data(), twice=st.booleans())
    def release(self, owner: str, data: st.DataObject, twice: bool) -> None:
        """Release a current or ended grant, with the right owner or another one."""
        fence = data.draw(st.sampled_from([fence for _, fence in self.old[-5:]] or [1]))
        mine = self.grant is not None and (self.grant.owner, self.grant.fence) == (owner, fence)
        live = self._live()
        self.bench.messages.clear()
        released = self.bench.run(grants.release(self.key, owner, fence), twice=twice)
        if mine:
            assert released == (twice or (self.grant is not None and self.grant.ends > self.bench.now))
            self._pass()
            self.requests[owner] += 1
        else:
            assert released == twice, "only the owner releases"
            assert live == self._live() or live

    @rule(owner=st.sampled_from(_OWNERS), lease=st.sampled_from([500, 20_000]), data=st.data())
    def renew(self, owner: str, lease: int, data: st.DataObject) -> None:
        """Renew a current or ended grant, with the right owner or another one."""
        fence = data.draw(st.sampled_from([fence for _, fence in self.old[-5:]] or [1]))
        kept = self.bench.run(grants.renew([Renewal(self.key, owner, fence, lease)], patience=0.0))[0]
        grant = self.grant
        if grant is not None and self._live() and (grant.owner, grant.fence) == (owner, fence):
            assert kept is not None, "an owner keeps what it renews in time"
            grant.ends = max(grant.ends, self.bench.now + lease * 1000)
        else:
            assert kept is None, "only the owner renews, and in time"

    @rule(microseconds=st.sampled_from([1, 500_000, 3_000_000, 10_000_000, 25_000_000]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule()
    def look(self) -> None:
        found = self.bench.run(grants.state(self.key))
        live = [waiter for waiter in self.line if waiter.until > self.bench.now]
        assert found.waiters == len(live)
        assert found.owner == ((self.grant.owner or None) if self.grant and self._live() else None)
