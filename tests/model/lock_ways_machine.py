"""One lock in every way that an owner may come to it or leave it, foretold answer by answer."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from lockwork.protocol import keys
from lockwork.protocol.effects import Argument
from lockwork.protocol.grants import CLAIM_MS
from model.bench import Bench
from model.exact_machine import EVERYBODY, LEASES, ONCE, PROCESSES, SENT, WHO, ExactMachine, Given, Sent
from model.line_model import Asker

_KEY = keys.lock("sim", "a")
_MINIMUM = st.sampled_from([0, 0, 1, 800, 10_000])
"""Milliseconds that a lock stays taken after its release."""


class LockWaysMachine(ExactMachine):
    """Acquired, extended, exported, adopted, released in time or too late, kept for its minimum, taken away."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.lock = self.locks[_KEY]
        self.passed: list[Given] = []
        """What was exported, and under which name it waits to be adopted."""
        self.adopted: set[int] = set()

    @rule(who=WHO, lease=LEASES, wait=st.sampled_from([True, True, False]), sent=SENT)
    def acquire(self, who: int, lease: int, wait: bool, sent: Sent) -> None:
        self._acquire(self.askers[who], lease, sent, wait=wait)

    @rule(order=EVERYBODY, lease=LEASES)
    def crowd(self, order: list[int], lease: int) -> None:
        """All come, one after the other."""
        for who in order:
            self._acquire(self.askers[who], lease, ONCE, wait=True)

    @rule(who=WHO, lease=LEASES)
    def come_again(self, who: int, lease: int) -> None:
        """An owner whose request got lost on its way out asks once more, and may stand in the line twice."""
        self.forget(who)
        self._acquire(self.askers[who], lease, ONCE, wait=True)

    def _acquire(self, asker: Asker, lease: int, sent: Sent, *, wait: bool) -> None:
        args = (asker.owner, asker.request, lease, CLAIM_MS, int(wait), asker.channel)
        self.answers("lock_acquire", [_KEY], args, lambda now, _: self.lock.ask(asker, lease, now, wait=wait), sent)

    @rule(who=WHO, sent=SENT)
    def abandon(self, who: int, sent: Sent) -> None:
        asker = self.askers[who]

        def expected(now: int, _: bool) -> int:
            self.lock.withdraw(asker.owner, asker.request, now)
            return 1

        self.answers("lock_abandon", [_KEY], [asker.owner, asker.request], expected, sent)
        assert self.lock.place(asker.request) is None
        self.anew(asker.owner, asker.request)

    @precondition(lambda self: self.given)
    @rule(data=st.data(), stranger=st.booleans(), keep=_MINIMUM, sent=SENT)
    def release(self, data: st.DataObject, stranger: bool, keep: int, sent: Sent) -> None:
        """Release a grant of now or before, also somebody else's; some stay taken for a minimum."""
        given = self.some(data)
        self._release("stranger" if stranger else given.owner, given, keep, sent)
        if not stranger:
            self.anew(given.owner, given.request)
        self.look()

    @precondition(lambda self: self.given)
    @rule(process=PROCESSES, sent=SENT)
    def release_all(self, process: str, sent: Sent) -> None:
        """A process releases all that it was ever granted; nothing of that is left, only what it is granted by this."""
        mine = [given for given in self.given if given.owner.startswith(f"{process}:")]
        for given in mine:
            self._release(given.owner, given, 0, sent)
            self.anew(given.owner, given.request)
        assert not any(self.holds(given) for given in mine)

    def _release(self, owner: str, given: Given, keep: int, sent: Sent) -> None:
        args: list[Argument] = [0, owner, given.fence, *([keep] if keep else [])]
        self.answers(
            "lock_release",
            [_KEY],
            args,
            lambda now, again: self.lock.release(owner, given.fence, now, again=again, keep=keep),
            sent,
            marked=True,
        )

    @precondition(lambda self: self.given)
    @rule(data=st.data(), lease=LEASES, sent=SENT)
    def export(self, data: st.DataObject, lease: int, sent: Sent) -> None:
        """A grant becomes that of nobody who asks: it lasts for its lease, unless it is adopted."""
        given = self.some(data)
        self.requests += 1
        transit = Asker("", f"{given.owner}~{self.requests:x}", f"{self.requests:x}")
        if fence := self._adopt(transit, given, lease, sent):
            self.passed.append(Given(_KEY, transit.owner, transit.request, fence))
            self.anew(given.owner, given.request)

    @precondition(lambda self: self.passed)
    @rule(who=WHO, data=st.data(), lease=LEASES, sent=SENT)
    def adopt(self, who: int, data: st.DataObject, lease: int, sent: Sent) -> None:
        """Whoever has the text takes the grant over; who comes second, or too late, is refused."""
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
            "lock_adopt",
            [_KEY],
            args,
            lambda now, _: self.lock.adopt(asker, lease, given.owner, given.fence, now),
            sent,
        )
        return reply[0]
