"""One lock with all its options, each reply predicted exactly."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from locks.model.exact_machine import EVERYBODY, LEASES, ONCE, PROCESSES, SENT, WHO, ExactMachine, Given, Sent
from locks.model.waiters_model import SECRET, Asker
from lockwork.protocol import keys
from lockwork.protocol.effects import Argument
from lockwork.protocol.locks.grants import CLAIM_MS
from models.bench import Bench

_KEY = keys.lock("sim", "a")
_MINIMUM = st.sampled_from([0, 0, 1, 800, 10_000])
"""Minimum time (ms) that a lock stays locked after its release."""


class LockOptionsMachine(ExactMachine):
    """A lock that is acquired, extended, exported, adopted, forced, and released in time, late or with a minimum."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.lock = self.locks[_KEY]
        self.passed: list[Given] = []
        """Exported grants, each with the owner and request under which it can be adopted."""
        self.adopted: set[int] = set()

    @rule(who=WHO, lease=LEASES, wait=st.sampled_from([True, True, False]), sent=SENT)
    def acquire(self, who: int, lease: int, wait: bool, sent: Sent) -> None:
        self._acquire(self.askers[who], lease, sent, wait=wait)

    @rule(order=EVERYBODY, lease=LEASES)
    def crowd(self, order: list[int], lease: int) -> None:
        """All owners acquire, one after the other."""
        for who in order:
            self._acquire(self.askers[who], lease, ONCE, wait=True)

    @rule(data=st.data(), lease=LEASES, turn=st.booleans())
    def come_again(self, data: st.DataObject, lease: int, turn: bool) -> None:
        """An owner asks again after its request was lost; it may then have two places."""
        who = data.draw(self._known())
        self.forget(who)
        if not self._acquire(self.askers[who], lease, ONCE, wait=True) and turn:
            self._give_way(self.askers[who])

    @rule(
        who=WHO,
        lease=LEASES,
        keep=_MINIMUM,
        microseconds=st.sampled_from([1, 400_000, 1_900_000, 2_100_000]),
        sent=SENT,
    )
    def work(self, who: int, lease: int, keep: int, microseconds: int, sent: Sent) -> None:
        """An owner acquires, works for a while if granted, and releases, perhaps after the lease ended."""
        if given := self._acquire(self.askers[who], lease, ONCE, wait=True):
            self.bench.now += microseconds
            self._release(given.owner, given, keep, sent)
            self.anew(given.owner, given.request)
            self.look()

    @rule(order=EVERYBODY, lease=st.sampled_from([500, 2000]), exports=st.booleans())
    def shorten(self, order: list[int], lease: int, exports: bool) -> None:
        """All waiters expect a long lease, but the grant is exported with a short one or released with a minimum."""
        self.crowd(order, 20_000)
        held = self.lock.held(self.bench.now)
        assert held is not None
        given = Given(_KEY, held.owner, held.request, held.fence)
        if exports:
            self._export(given, lease, ONCE)
        else:
            self._release(given.owner, given, lease, ONCE)
            self.anew(given.owner, given.request)

    @precondition(lambda self: self._waiting())
    @rule(data=st.data())
    def give_way(self, data: st.DataObject) -> None:
        """The holders ahead of a waiter release the lock until the waiter is granted it."""
        self._give_way(data.draw(st.sampled_from(self._waiting())))

    def _give_way(self, asker: Asker) -> None:
        """Release or force the grants ahead of `asker` until `asker` is granted the lock, and release that."""
        for _ in range(self.requests):
            if given := self._acquire(asker, 20_000, ONCE, wait=True):
                break
            grant = self.lock.held(self.bench.now)
            assert grant is not None
            if grant.owner:
                self._release(grant.owner, Given(_KEY, grant.owner, grant.request, grant.fence), 0, ONCE)
            else:
                self.force_one(_KEY, grant.fence, ONCE)
        assert given, "who waits has its turn in the end"
        self._release(given.owner, given, 0, ONCE)
        self.anew(given.owner, given.request)
        self.look()

    @precondition(lambda self: self._waiting())
    @rule(data=st.data())
    def stop_waiting(self, data: st.DataObject) -> None:
        """A waiter asks again without waiting."""
        self._acquire(data.draw(st.sampled_from(self._waiting())), 2000, ONCE, wait=False)
        self.look()

    def _waiting(self) -> list[Asker]:
        return [asker for asker in self.askers if self.lock.place(asker.request)]

    @precondition(lambda self: self.lock.line)
    @rule(who=WHO, data=st.data(), off=st.integers(-2, 0))
    def come_at_an_end(self, who: int, data: st.DataObject, off: int) -> None:
        """An owner acquires a free lock at the end of a waiter's place, or just before or after it."""
        place = data.draw(st.sampled_from(self.lock.line))
        self.bench.now = max(self.bench.now, place.until + off - 1)
        if held := self.lock.held(self.bench.now):
            self.force_one(_KEY, held.fence, ONCE)
        else:
            self._acquire(self.askers[who], 2000, ONCE, wait=True)

    def _acquire(self, asker: Asker, lease: int, sent: Sent, *, wait: bool) -> Given | None:
        subscribed = wait and "v1.2" in asker.request
        args = (asker.owner, asker.request, lease, CLAIM_MS, wait + subscribed, asker.channel, SECRET)
        granted, fence, *_ = self.answers(
            "locks/acquire",
            [_KEY],
            args,
            lambda now, _: self.lock.ask(asker, lease, now, wait=wait, subscribed=subscribed),
            sent,
        )
        return Given(_KEY, asker.owner, asker.request, fence) if granted else None

    @rule(data=st.data(), sent=SENT)
    def give_up(self, data: st.DataObject, sent: Sent) -> None:
        """Abandon a request, usually a granted or waiting one."""
        self._abandon(self.askers[data.draw(self._known())], sent)

    def _known(self) -> st.SearchStrategy[int]:
        every = list(enumerate(self.askers))
        known = [who for who, asker in every if self.lock.has(asker, self.bench.now) or self.lock.place(asker.request)]
        return st.sampled_from(known or [who for who, _ in every])

    def _abandon(self, asker: Asker, sent: Sent) -> None:

        def expected(now: int, _: bool) -> int:
            self.lock.withdraw(asker.owner, asker.request, now)
            return 1

        self.answers("locks/abandon", [_KEY], [asker.owner, asker.request], expected, sent)
        assert self.lock.place(asker.request) is None
        self.anew(asker.owner, asker.request)

    @rule(who=WHO)
    def begin_in_vain(self, who: int) -> None:
        """Abandon a request that was never sent: the grant or place of the owner's previous request stays."""
        self.forget(who)
        self._abandon(self.askers[who], ONCE)

    @precondition(lambda self: self.given)
    @rule(data=st.data(), stranger=st.booleans(), keep=_MINIMUM, sent=SENT)
    def release(self, data: st.DataObject, stranger: bool, keep: int, sent: Sent) -> None:
        """Release a current or ended grant, with the right owner or another one, some with a minimum."""
        given = self.some(data)
        self._release("stranger" if stranger else given.owner, given, keep, sent)
        if not stranger:
            self.anew(given.owner, given.request)
        self.look()

    @precondition(lambda self: self.earlier())
    @rule(data=st.data(), exports=st.booleans(), lease=LEASES, sent=SENT)
    def come_with_an_old_fence(self, data: st.DataObject, exports: bool, lease: int, sent: Sent) -> None:
        """Export or release with an ended grant's fence while the same owner holds the lock again."""
        given = data.draw(st.sampled_from(self.earlier()))
        if exports:
            assert not self._adopt(Asker("", "stranger", "stranger"), given, lease, sent)
        else:
            self._release(given.owner, given, 0, sent)
            assert not self.holds(given)

    @precondition(lambda self: self.given)
    @rule(process=PROCESSES, sent=SENT)
    def release_all(self, process: str, sent: Sent) -> None:
        """Release all grants that a process ever had, and check that the process no longer holds any."""
        mine = [given for given in self.given if given.owner.startswith(f"{process}:")]
        for given in mine:
            self._release(given.owner, given, 0, sent)
            self.anew(given.owner, given.request)
        assert not any(self.holds(given) for given in mine)

    def _release(self, owner: str, given: Given, keep: int, sent: Sent) -> None:
        ticket = given.fence % 5  # often a wrong one, which must not matter
        args: list[Argument] = [0, owner, given.fence, *([keep, ticket] if ticket else [keep] if keep else [])]
        self.answers(
            "locks/release",
            [_KEY],
            args,
            lambda now, again: self.lock.release(owner, given.fence, now, again=again, keep=keep),
            sent,
            marked=True,
        )

    @precondition(lambda self: self.given)
    @rule(data=st.data(), lease=LEASES, sent=SENT)
    def export(self, data: st.DataObject, lease: int, sent: Sent) -> None:
        """Export a grant: it has a new owner and lease, and ends with that lease unless it is adopted."""
        self._export(self.some(data), lease, sent)

    def _export(self, given: Given, lease: int, sent: Sent) -> None:
        self.requests += 1
        transit = Asker("", f"{given.owner}~{self.requests:x}", f"{self.requests:x}")
        if fence := self._adopt(transit, given, lease, sent):
            self.passed.append(Given(_KEY, transit.owner, transit.request, fence))
            self.anew(given.owner, given.request)

    @precondition(lambda self: self.passed)
    @rule(who=WHO, data=st.data(), lease=LEASES, sent=SENT)
    def adopt(self, who: int, data: st.DataObject, lease: int, sent: Sent) -> None:
        """Adopt an exported grant; a second or late adoption is refused."""
        passed = data.draw(st.sampled_from(self.passed[-3:]))
        self.askers[who] = self._asker(who)
        fence = self._adopt(self.askers[who], passed, lease, sent)
        assert not (fence and passed.fence in self.adopted), "a grant is adopted once"
        if fence:
            assert fence > passed.fence, "with a higher fence"
            self.adopted.add(passed.fence)

    def _adopt(self, asker: Asker, given: Given, lease: int, sent: Sent) -> int:
        args = (asker.owner, asker.request, lease, given.owner, given.fence)
        reply: list[int] = self.answers(
            "locks/adopt",
            [_KEY],
            args,
            lambda now, _: self.lock.adopt(asker, lease, given.owner, given.fence, now),
            sent,
        )
        return reply[0]
