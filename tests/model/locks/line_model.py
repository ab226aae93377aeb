"""One lock and its line in plain Python: what the server answers to each request, and whom it tells, to the letter.

Unlike `lock_machine`, which says what must be true of any answer, this says the one answer that is right: fences,
deadlines, and when to look again. Times are the server's, in microseconds; the time of a request is `now`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.protocol.locks.grants import CLAIM_MS
from lockwork.protocol.locks.lock import LockState
from lockwork.protocol.messages import seal
from model.bench import SECOND

SECRET = "a waiter's secret"

CHANNELS = "sim:wake:"
PLACE = 15 * SECOND
"""How long a place in the line lasts unless it is asked for again."""
_OFTEN, _SELDOM = 1000, 4900
"""Milliseconds after which who is first looks again, and everybody else."""
_LATE = 900
"""Milliseconds that somebody in the line may look later than the lock is free."""
_NEAR = 10
"""Only so many places from the first on can be warned of a grant that is shorter than expected."""


@dataclass(frozen=True)
class Asker:
    """One request of one owner, in a process that hears its channel, or does not any more."""

    process: str
    owner: str
    request: str

    @property
    def channel(self) -> str:
        """Where its process is told."""
        return CHANNELS + self.process


@dataclass
class Wakes:
    """What processes are told; who does not listen hears nothing."""

    heard: frozenset[str]
    messages: list[tuple[str, str]]

    def tell(self, channel: str, text: str) -> bool:
        """Publish; True when somebody hears it."""
        if channel in self.heard:
            self.messages.append((channel, text))
        return channel in self.heard


def sealed(request: str, words: str) -> str:
    """A message as it comes to somebody who gave this secret."""
    return f"{request} {seal(SECRET, request, words)} {words}"


@dataclass
class Grant:
    """Who has the lock; nobody, under the last fence, while it is kept for its minimum."""

    owner: str
    request: str
    fence: int
    ends: int


@dataclass
class Waiter:
    """A place in the line."""

    ticket: int
    asker: Asker
    claim: int = 0
    until: int = 0
    looks: int = 0


class LineModel:
    """One lock."""

    def __init__(self, key: str, wakes: Wakes) -> None:
        self.key = key
        self.wakes = wakes
        self.grant: Grant | None = None
        self.line: list[Waiter] = []
        self.fence = 0
        self.head = self.tail = 0
        """The ticket that is served next, and the last one given out; 0 while nobody waits or has waited."""

    def held(self, now: int) -> Grant | None:
        """The grant, while its lease lasts."""
        return self.grant if self.grant is not None and self.grant.ends > now else None

    def place(self, request: str) -> Waiter | None:
        """Where a request stands in the line."""
        return next((waiter for waiter in self.line if waiter.asker.request == request), None)

    def has(self, asker: Asker, now: int) -> bool:
        """Whether a request has the lock now."""
        grant = self.held(now)
        return grant is not None and (grant.owner, grant.request) == (asker.owner, asker.request)

    # -- scripts ------------------------------------------------------------------------------------------------------

    def ask(self, asker: Asker, lease: int, now: int, *, wait: bool) -> list[int]:
        """A lock is granted to who met it before, and to nobody past another; a keeper is asked to give it back."""
        before, held = self.grant, self.held(now)
        if held is not None and self.has(asker, now):
            held.ends = max(held.ends, now + lease * 1000)
            return [1, held.fence, held.ends, now]
        if held is not None and held.owner == asker.owner:
            self._leave(asker.request)  # an owner that asks anew knows nothing of that grant
            return self._granted(asker, lease, now)
        if held is None:
            if before is not None and before.owner:
                # its lease ran out: its process is to ask whether it still holds
                self.wakes.tell(CHANNELS + before.owner.partition(":")[0], f"! look {self.key}")
            first = self._first(now, asker.request)
            if first is None or first.asker.request == asker.request:
                return self._granted(asker, lease, now)
            self._hand(first, now)
        assert self.grant is not None
        if before is not None and before.request.startswith("~"):
            keeper = before.request[1:].partition(";")[0].rpartition(".")[0]
            self.wakes.tell(CHANNELS + keeper, f"! asked {self.key}")
        if not wait:
            self._leave(asker.request)
            return [0, 0, now]
        place = self.place(asker.request) or self._placed(asker)
        left, ahead = -((now - self.grant.ends) // 1000), place.ticket - self.head
        check = min(left + min(50 * ahead, _LATE), _SELDOM) if ahead else min(left + 2, _OFTEN)
        place.claim, place.until, place.looks = min(lease, CLAIM_MS), now + PLACE, now + check * 1000
        return [0, check, now]

    def withdraw(self, owner: str, request: str, now: int) -> None:
        """A request is taken back, whatever became of it."""
        if self.grant is not None and (self.grant.owner, self.grant.request) == (owner, request):
            self._pass(now)
        else:
            self._leave(request)

    def release(self, owner: str, fence: int, now: int, *, again: bool, keep: int = 0) -> int:
        """One grant of one owner ends, or goes to nobody for `keep` ms; too late, it only ends."""
        grant = self.grant
        if grant is None or (grant.owner, grant.fence) != (owner, fence):
            return int(again)
        in_time = grant.ends > now
        if in_time and keep:
            self.grant = Grant("", "", fence, now + keep * 1000)
            self._warn(now)
        else:
            self._pass(now)
        return int(in_time)

    def renew(self, owner: str, fence: int, lease: int, now: int) -> int:
        """The deadline grows, if the lease has not ended."""
        held = self.held(now)
        if held is None or (held.owner, held.fence) != (owner, fence):
            return 0
        held.ends = max(held.ends, now + lease * 1000)
        return held.ends

    def adopt(self, asker: Asker, lease: int, owner: str, fence: int, now: int) -> list[int]:
        """The grant of `owner` with that fence becomes one of `asker`, once, with a higher fence; the line stays."""
        held = self.held(now)
        if held is not None and self.has(asker, now):
            return [held.fence, held.ends, now]
        if held is None or (held.owner, held.fence) != (owner, fence):
            return [0, 0, now]
        return self._granted(asker, lease, now)[1:]

    def force(self, fence: int, now: int, *, again: bool) -> int:
        """The grant with that fence ends whoever has it, and its process is told to look."""
        held = self.held(now)
        if held is None or held.fence != fence:
            return int(again)
        self._pass(now)
        self.wakes.tell(CHANNELS + held.owner.partition(":")[0], f"! look {self.key}")
        return 1

    def state(self, now: int) -> LockState:
        """What anybody may read."""
        held, waiters = self.held(now), sum(waiter.until > now for waiter in self.line)
        if held is None:
            return LockState(None, "", self.fence, 0.0, waiters)
        return LockState(held.owner or None, held.request, self.fence, -((now - held.ends) // 1000) / 1000, waiters)

    # -- what they have in common -------------------------------------------------------------------------------------

    def _give(self, asker: Asker, lease: int, now: int) -> Grant:
        self.fence = max(self.fence + 1, now)
        self.grant = Grant(asker.owner, asker.request, self.fence, now + lease * 1000)
        return self.grant

    def _granted(self, asker: Asker, lease: int, now: int) -> list[int]:
        grant = self._give(asker, lease, now)
        self._warn(now)
        return [1, grant.fence, grant.ends, now]

    def _hand(self, waiter: Waiter, now: int) -> None:
        grant = self._give(waiter.asker, waiter.claim, now)
        self.wakes.tell(waiter.asker.channel, sealed(waiter.asker.request, f"{grant.fence} {grant.ends}"))
        self._warn(now)

    def _warn(self, now: int) -> None:
        """The lock is free sooner than the next in line means to look: they are told, until three have heard it."""
        assert self.grant is not None
        late = self.grant.ends + _LATE * 1000
        if self.grant.ends - now >= (_SELDOM - _LATE) * 1000:
            return
        near = [waiter for waiter in self.line if waiter.ticket < self.head + _NEAR]
        told = 0
        for waiter in near:
            if told < 3 and waiter.until > now and waiter.looks > late:
                told += self.wakes.tell(waiter.asker.channel, f"{waiter.asker.request} look")

    def _placed(self, asker: Asker) -> Waiter:
        self.tail += 1
        self.head = self.head or self.tail
        self.line.append(Waiter(self.tail, asker))
        return self.line[-1]

    def _leave(self, request: str) -> None:
        self.line = [waiter for waiter in self.line if waiter.asker.request != request]

    def _first(self, now: int, mine: str = "") -> Waiter | None:
        """Take the first live waiter out of the line, and all dead ones before it; who asks is alive."""
        while self.line:
            first = self.line.pop(0)
            if first.until > now or first.asker.request == mine:
                self.head = first.ticket + 1
                return first
        self.head = self.tail and self.tail + 1
        return None

    def _pass(self, now: int) -> None:
        first = self._first(now)
        if first is not None:
            self._hand(first, now)
        else:
            self.grant, self.head, self.tail = None, 0, 0
