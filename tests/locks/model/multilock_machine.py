"""Requests for several locks together with requests for single ones, each reply predicted exactly."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import invariant, precondition, rule

from locks.model.exact_machine import EVERYBODY, ONCE, SENT, WHO, ExactMachine, Given, Sent
from locks.model.waiters_model import SECRET, Asker
from lockwork.protocol.effects import Argument
from lockwork.protocol.locks.grants import CLAIM_MS
from models.bench import Bench

_LEASES = st.sampled_from([2, 500, 2000, 2000, 20_000, 20_000])


class MultilockMachine(ExactMachine):
    """Requests that ask for the same locks each time. Some requests for one lock use the scripts of a single lock."""

    names = ("a", "b", "c", "d")

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.wanted: dict[str, list[str]] = {}
        """The sorted keys that each request asks for."""
        self.got: list[list[Given]] = []
        """Requests that were granted completely, as one grant for each lock."""

    # -- the model ----------------------------------------------------------------------------------------------------

    def _collected(self, asker: Asker, at: list[str], lease: int, now: int, *, wait: bool) -> list[int]:
        """Predict `multi_acquire`: ask for each lock up to the first busy one, and withdraw the request from the later
        locks.
        """
        found = [1, now]
        for place, key in enumerate(at):
            answer = self.locks[key].ask(asker, lease, now, wait=wait)
            if answer[0]:
                found += answer[1:3]
                continue
            for other in at[place + 1 :] if wait else at[place + 1 :] + at[:place]:
                self.locks[other].withdraw(asker.owner, asker.request, now)
            if wait and place:
                answer[1] = max(1, min(answer[1], lease // 3))  # asks again before the leases it already holds end
            return answer[:3]
        return found

    def _has(self, asker: Asker, key: str) -> bool:
        return self.locks[key].has(asker, self.bench.now)

    def _waits(self, asker: Asker, key: str) -> bool:
        return self.locks[key].place(asker.request) is not None

    @invariant()
    def nobody_waits_in_a_circle(self) -> None:
        """A waiting request holds and waits for no lock that is later in the order than the one it waits for."""
        for asker in self.askers:
            at = self.wanted.get(asker.request, [])
            first = next((place for place, key in enumerate(at) if self._waits(asker, key)), len(at))
            for key in at[first + 1 :]:
                assert not self._has(asker, key)
                assert not self._waits(asker, key)

    # -- rules --------------------------------------------------------------------------------------------------------

    @rule(who=WHO, data=st.data(), lease=_LEASES, wait=st.sampled_from([True, True, True, False]), sent=SENT)
    def acquire(self, who: int, data: st.DataObject, lease: int, wait: bool, sent: Sent) -> None:
        self._acquire(self.askers[who], data, lease, sent, wait=wait)

    @precondition(lambda self: any(map(self._partly, self.askers)))
    @rule(data=st.data(), lease=_LEASES, wait=st.booleans())
    def ask_again(self, data: st.DataObject, lease: int, wait: bool) -> None:
        """A request that holds some of its locks asks again; it may have lost others since."""
        asker = data.draw(st.sampled_from([asker for asker in self.askers if self._partly(asker)]))
        self._acquire(asker, data, lease, ONCE, wait=wait)

    def _partly(self, asker: Asker) -> bool:
        at = self.wanted.get(asker.request, [])
        return 0 < sum(self._has(asker, key) for key in at) < len(at)

    @rule(who=WHO, data=st.data(), least=st.integers(2, 4))
    def try_several(self, who: int, data: st.DataObject, least: int) -> None:
        """A new request asks for at least two locks without waiting."""
        self.forget(who)
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.locks)), min_size=least))
        self.wanted[self.askers[who].request] = sorted(chosen)
        self._acquire(self.askers[who], data, 2000, ONCE, wait=False)
        self.look()

    @precondition(lambda self: self._rich())
    @rule(data=st.data(), lease=_LEASES, wait=st.booleans())
    def lose_one(self, data: st.DataObject, lease: int, wait: bool) -> None:
        """Force one lock of a request, so that the next waiter or a new request gets it; then the first request asks
        again.
        """
        who = data.draw(st.sampled_from(self._rich()))
        asker, thief = self.askers[who], who - 1
        key = data.draw(st.sampled_from([key for key in self.wanted[asker.request][:-1] if self._has(asker, key)]))
        self.force_one(key, self.locks[key].fence, ONCE)
        self.forget(thief)
        self.wanted[self.askers[thief].request] = [key]
        self._acquire(self.askers[thief], data, 20_000, ONCE, wait=True)
        self._acquire(asker, data, lease, ONCE, wait=wait)

    def _rich(self) -> list[int]:
        """Return the owners that hold a lock and also want a later one."""
        wanted = [(who, asker, self.wanted.get(asker.request, [])) for who, asker in enumerate(self.askers)]
        return [who for who, asker, at in wanted if any(self._has(asker, key) for key in at[:-1])]

    @rule(order=EVERYBODY, data=st.data(), lease=_LEASES)
    def crowd(self, order: list[int], data: st.DataObject, lease: int) -> None:
        """All owners acquire, one after the other."""
        for who in order:
            self._acquire(self.askers[who], data, lease, ONCE, wait=True)

    def _acquire(self, asker: Asker, data: st.DataObject, lease: int, sent: Sent, *, wait: bool) -> None:
        if asker.request not in self.wanted:
            most = 1 if asker.request.startswith("~") else len(self.locks)
            chosen = data.draw(st.sets(st.sampled_from(sorted(self.locks)), min_size=1, max_size=most))
            self.wanted[asker.request] = sorted(chosen)
        at = self.wanted[asker.request]
        args = (asker.owner, asker.request, lease, CLAIM_MS, int(wait), asker.channel, SECRET)

        def expected(now: int, _: bool) -> list[int]:
            if self._alone(asker):
                return self.locks[at[0]].ask(asker, lease, now, wait=wait)
            return self._collected(asker, at, lease, now, wait=wait)

        reply = self.answers("locks/acquire" if self._alone(asker) else "locks/multi_acquire", at, args, expected, sent)
        if reply[0]:
            assert all(self._has(asker, key) for key in at), "all"
            self.got.append([Given(key, asker.owner, asker.request, self.locks[key].fence) for key in at])
        elif not wait:
            assert not any(self._has(asker, key) or self._waits(asker, key) for key in at), "or nothing"

    def _alone(self, asker: Asker) -> bool:
        """Return True if the request uses the scripts of a single lock: each sticky request, and half of the requests
        for one lock.
        """
        at = self.wanted.get(asker.request, [])
        return len(at) == 1 and (asker.request.startswith("~") or "v1.2" in asker.request)

    @rule(data=st.data(), sent=SENT)
    def give_up(self, data: st.DataObject, sent: Sent) -> None:
        """Abandon a request, usually one holding several locks."""
        having = [asker for asker in self.askers if sum(self._has(asker, key) for key in self.locks) > 1]
        self._abandon(data.draw(st.sampled_from(having or self.askers)), sent)
        self.look()

    @rule(who=WHO)
    def begin_in_vain(self, who: int) -> None:
        """Abandon a request that was never sent: the grants and places of the owner's previous request stay."""
        self.forget(who)
        self._abandon(self.askers[who], ONCE)

    def _abandon(self, asker: Asker, sent: Sent) -> None:
        at = self.wanted.get(asker.request, sorted(self.locks))

        def expected(now: int, _: bool) -> int:
            for key in at:
                self.locks[key].withdraw(asker.owner, asker.request, now)
            return 1

        script = "locks/abandon" if self._alone(asker) else "locks/multi_abandon"
        self.answers(script, at, [asker.owner, asker.request], expected, sent)
        assert not any(self._has(asker, key) or self._waits(asker, key) for key in at)
        self.anew(asker.owner, asker.request)

    @precondition(lambda self: self.got)
    @rule(data=st.data(), stranger=st.booleans(), part=st.booleans(), sent=SENT)
    def release(self, data: st.DataObject, stranger: bool, part: bool, sent: Sent) -> None:
        """Release all or some locks of a complete grant, current or ended, with the right owner or another one."""
        had = data.draw(st.sampled_from(self._latest()))
        if part:
            had = [given for given in had if data.draw(st.booleans())] or had[:1]
        self._release("stranger" if stranger else had[0].owner, had, sent)
        if not stranger:
            self.anew(had[0].owner, had[0].request)
        self.look()

    def _latest(self) -> list[list[Given]]:
        return [had for had in self.got if any(self.holds(given) for given in had)] + self.got[-3:]

    @precondition(lambda self: self.given)
    @rule(data=st.data(), sent=SENT)
    def release_mixed(self, data: st.DataObject, sent: Sent) -> None:
        """Release fences of different grants and owners in one call: each lock decides separately."""
        mixed = {given.key: given for given in (self.some(data) for _ in range(3))}
        had = [mixed[key] for key in sorted(mixed)]
        self._release(had[0].owner, had, sent)
        self.anew(had[0].owner, had[0].request)

    @precondition(lambda self: self._latest())
    @rule(data=st.data(), sent=SENT)
    def release_before(self, data: st.DataObject, sent: Sent) -> None:
        """An owner makes a new request for the same locks, and then releases the grants of its previous request."""
        having = [asker for asker in self.askers if any(had[0].request == asker.request for had in self._latest())]
        asker = data.draw(st.sampled_from(having or self.askers))
        had = {given.key: given for given in self.given if given.request == asker.request}
        if had:
            who = self.askers.index(asker)
            self.forget(who)
            self.wanted[self.askers[who].request] = sorted(had)
            self._acquire(self.askers[who], data, 2000, ONCE, wait=True)
            self._release(asker.owner, [had[key] for key in sorted(had)], sent)

    def _release(self, owner: str, had: list[Given], sent: Sent) -> None:
        def expected(now: int, again: bool) -> list[int]:
            return [self.locks[given.key].release(owner, given.fence, now, again=again) for given in had]

        args: list[Argument] = [0, owner, *(given.fence for given in had)]
        self.answers("locks/multi_release", [given.key for given in had], args, expected, sent, marked=True)

    @precondition(lambda self: self.given)
    @rule(data=st.data(), stranger=st.booleans(), sent=SENT)
    def release_one(self, data: st.DataObject, stranger: bool, sent: Sent) -> None:
        """Release one lock with the script of a single lock."""
        given = self.some(data)
        owner = "stranger" if stranger else given.owner
        self._release_alone(owner, given.key, given.fence, sent)
        if not stranger:
            self.anew(given.owner, given.request)

    def _release_alone(self, owner: str, key: str, fence: int, sent: Sent) -> None:
        self.answers(
            "locks/release",
            [key],
            [0, owner, fence],
            lambda now, again: self.locks[key].release(owner, fence, now, again=again),
            sent,
            marked=True,
        )

    @precondition(lambda self: self._waiting())
    @rule(data=st.data())
    def give_way(self, data: st.DataObject) -> None:
        """Release the locks that block a waiter, again and again, until the waiter is granted all its locks."""
        asker = data.draw(st.sampled_from(self._waiting()))
        collected = len(self.got)
        for _ in range(len(self.locks) * self.requests):
            self._acquire(asker, data, 20_000, ONCE, wait=True)
            if len(self.got) > collected:
                break
            for key in self.wanted[asker.request]:
                grant = self.locks[key].held(self.bench.now)
                if self._waits(asker, key) and grant is not None:
                    self._release_alone(grant.owner, key, grant.fence, ONCE)
        assert len(self.got) > collected, "who waits gets all in the end"
        self._release(asker.owner, self.got[-1], ONCE)
        assert not any(map(self.holds, self.got[-1]))
        self.anew(asker.owner, asker.request)

    def _waiting(self) -> list[Asker]:
        return [asker for asker in self.askers if any(self._waits(asker, key) for key in self.locks)]
