"""Base of the machines that predict each reply about locks: owners, repeated calls and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from locks.model.waiters_model import CHANNELS, Asker, WaitersModel, Wakes
from lockwork.protocol import keys
from lockwork.protocol.effects import Argument, script_call
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.overview import described, job_text
from models.bench import SECOND, Bench

_OWNERS = [("far.host/1/x", "1:ann"), ("far.host/1/x", "2:bob"), ("near/2/y", "3:eve"), ("near/2/y", "4:joe"),
           ("gone/3/z", "5:kim"), ("gone/3/z", "6:lea")]  # fmt: skip
_HEARD = ("far.host/1/x", "near/2/y")
PROCESSES = st.sampled_from(sorted({process for process, _ in _OWNERS}))
WHO = st.integers(0, len(_OWNERS) - 1)
EVERYBODY = st.permutations(range(len(_OWNERS)))
LEASES = st.sampled_from([500, 2000, 20_000])
SENT = st.sampled_from([((0, 1),), ((0, 1),), ((1, 1),), ((0, 1), (1, 0)), ((0, 1), (1, 3 * SECOND))])
"""Tries of one call: (1 if the call is marked as repeated, microseconds since the previous call)."""
Sent = tuple[tuple[int, int], ...]
ONCE: Sent = ((0, 1),)


@dataclass(frozen=True)
class Given:
    """A grant that a lock made, current or ended."""

    key: str
    owner: str
    request: str
    fence: int


class ExactMachine(RuleBasedStateMachine):
    """Locks named `names`, and owners with one request at a time. Every third request belongs to a sticky lock."""

    names: tuple[str, ...] = ("a",)

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        for process in _HEARD:
            bench.hear(CHANNELS + process)
        self.wakes = Wakes({CHANNELS + process for process in _HEARD}, [])
        self.locks = {key: WaitersModel(key, self.wakes) for key in (keys.lock("sim", name) for name in self.names)}
        self.requests = 0
        self.askers = [self._asker(who) for who in range(len(_OWNERS))]
        self.given: list[Given] = []

    def _asker(self, who: int) -> Asker:
        process, label = _OWNERS[who]
        self.requests += 1
        tags = ["v1.2"] if self.requests % 2 else []
        request = described(f"{process}.{self.requests:x}", tags, job_text("P7-a", "send") if self.requests % 5 else "")
        owner = f"{process}:{label}"
        if self.requests % 3:
            return Asker(process, owner, request)
        return Asker(process, f"{owner}~{request}", f"~{request}")

    def anew(self, owner: str, request: str) -> None:
        """Replace a request that has ended: its owner gets a new one."""
        for who, asker in enumerate(self.askers):
            if (asker.owner, asker.request) == (owner, request):
                self.askers[who] = self._asker(who)

    def answers(
        self,
        name: str,
        at: Sequence[str],
        args: Sequence[Argument],
        expected: Callable[[int, bool], Any],
        sent: Sent = ONCE,
        *,
        marked: bool = False,
    ) -> Any:
        """Run a script; check the reply against `expected(now, again)`, and the messages against the model's."""
        self.bench.messages.clear()
        self.wakes.messages.clear()
        one = not name.startswith("locks/multi") and not name.endswith("renew")
        call, reply = script_call(name, at[0] if one else at, args), None
        for again, later in sent:
            reply = self.bench.call(call.again() if again else call, later=later)
            assert reply == expected(self.bench.now, marked and bool(again)), f"what {name} answers"
            self._note()
        assert self.bench.messages == self.wakes.messages, "who is told"
        return reply

    def _note(self) -> None:
        for key, one in self.locks.items():
            last = max((given.fence for given in self.given if given.key == key), default=0)
            if one.grant is not None and one.grant.owner and one.grant.fence != last:
                assert one.grant.fence > last, "the fence rises"
                self.given.append(Given(key, one.grant.owner, one.grant.request, one.grant.fence))

    def some(self, data: st.DataObject) -> Given:
        """Draw a grant, current or ended; current ones are more likely."""
        now = [given for given in self.given if self.holds(given)]
        return data.draw(st.sampled_from(now + now + self.given[-3:]))

    def earlier(self) -> list[Given]:
        """Return ended grants whose owner holds the same lock again."""
        now = {(given.key, given.owner) for given in self.given if self.holds(given)}
        return [given for given in self.given if (given.key, given.owner) in now and not self.holds(given)]

    def holds(self, given: Given) -> bool:
        """Return True if the lock has not changed since this grant; the lease may have run out."""
        grant = self.locks[given.key].grant
        return grant is not None and (grant.owner, grant.fence) == (given.owner, given.fence)

    # -- rules of all machines ----------------------------------------------------------------------------------------

    @rule(who=WHO)
    def forget(self, who: int) -> None:
        """An owner makes a new request without telling the server: its place becomes stale, or its grant unclaimed."""
        self.askers[who] = self._asker(who)

    @precondition(lambda self: self.given)
    @rule(data=st.data(), stranger=st.booleans(), lease=LEASES, count=st.integers(1, 3))
    def extend(self, data: st.DataObject, stranger: bool, lease: int, count: int) -> None:
        """Extend up to three grants in one call, current or ended, with the right owner or another one."""
        wanted = [self.some(data) for _ in range(count)]
        owners = ["stranger" if stranger and not at else given.owner for at, given in enumerate(wanted)]
        args: list[Argument] = []
        for given, owner in zip(wanted, owners, strict=True):
            args += (owner, given.fence, lease)

        def expected(now: int, _: bool) -> list[int]:
            renewed = zip(wanted, owners, strict=True)
            return [*(self.locks[given.key].renew(owner, given.fence, lease, now) for given, owner in renewed), now]

        self.answers("locks/renew", [given.key for given in wanted], args, expected)

    @precondition(lambda self: self.given)
    @rule(data=st.data(), sent=SENT)
    def force(self, data: st.DataObject, sent: Sent) -> None:
        """Force a release with the fence of a grant that may have ended."""
        given = self.some(data)
        self.force_one(given.key, given.fence, sent)

    def force_one(self, key: str, fence: int, sent: Sent) -> None:
        """Force the release of lock `key` if its fence is `fence`."""
        self.answers(
            "locks/force",
            [key],
            [0, fence, CHANNELS],
            lambda now, again: self.locks[key].force(fence, now, again=again),
            sent,
            marked=True,
        )

    @rule(microseconds=st.sampled_from([1, 500_000, 3 * SECOND, 10 * SECOND, 25 * SECOND]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule(data=st.data(), off=st.integers(-2, 0))
    def wait_for_an_end(self, data: st.DataObject, off: int) -> None:
        """Move the clock close to the end of a lease or place: the next call runs just before it, at it, or just after
        it.
        """
        ends = [one.grant.ends for one in self.locks.values() if one.grant is not None]
        ends += [waiter.until for one in self.locks.values() for waiter in one.line]
        ahead = sorted({end + off for end in ends if end + off > self.bench.now})
        if ahead:
            self.bench.now = data.draw(st.sampled_from(ahead))

    @rule(process=PROCESSES)
    def hang_up(self, process: str) -> None:
        """A process stops listening: it died, or its connection broke."""
        self.bench.deafen(CHANNELS + process)
        self.wakes.heard.discard(CHANNELS + process)

    @rule(process=PROCESSES)
    def listen(self, process: str) -> None:
        """A process starts to listen, again or for the first time."""
        self.bench.hear(CHANNELS + process)
        self.wakes.heard.add(CHANNELS + process)

    @rule()
    def look(self) -> None:
        for key, one in self.locks.items():
            assert self.bench.run(grants.state(key)) == one.state(self.bench.now), "what anybody may read"
