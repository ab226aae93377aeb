"""One lock and its line in plain Python: what the server answers to each request, and whom it tells, to the letter.

Unlike `lock_machine`, which says what must be true of any answer, this says the one answer that is right: fences,
deadlines, and when to look again. Times are the server's, in microseconds; the time of a request is `now`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.protocol.locks.grants import CLAIM_MS, LockState
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
_NEAR = 100
"""Only so many places from the first on can be warned of a grant that is shorter than expected."""
_DEAF, _DEAF_LATE = 500, 400
"""Milliseconds after which somebody who cannot be told looks again, and that it may be late."""
_FORGET = 20 * SECOND
"""How long it is known who left a hand-over unclaimed, at least until the next one does."""


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

    heard: set[str]
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
    deaf: bool = False


class WaitersModel:
    """One lock."""

    def __init__(self, key: str, wakes: Wakes) -> None:
        self.key = key
        self.wakes = wakes
        self.grant: Grant | None = None
        self.line: list[Waiter] = []
        self.fence = 0
        self.handed: tuple[int, str] | None = None
        """Until when the last hand-over lasts unless it is claimed, and whose it is."""
        self.silent: dict[str, int] = {}
        """The channels of processes that left one unclaimed, and since when."""
        self.bottom: int | None = None
        """The first ticket that was passed over."""
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
        before, held, place = self.grant, self.held(now), self.place(asker.request)
        if place is not None and place.ticket < self.head:
            # who was passed over is first when it asks again, but for those before it that can be told again, too
            self.head = self.bottom if self.bottom is not None else place.ticket
        if held is None and before is not None:
            self._unclaimed(before, now)
        self._asks(asker.channel)
        if held is not None and self.has(asker, now):
            held.ends = max(held.ends, now + lease * 1000)
            self._save(now)
            return [1, held.fence, held.ends, now]
        if held is not None and held.owner == asker.owner:
            self._leave(asker.request)  # an owner that asks anew knows nothing of that grant
            self._save(now)
            return self._granted(asker, lease, now)
        if held is None:
            self._lapsed(before)
            first = self._first(now, asker.request, asker.channel)
            if first is None or first.asker.request == asker.request:
                return self._granted(asker, lease, now)
            self._hand(first, now)
        assert self.grant is not None
        if before is not None and before.request.startswith("~"):
            keeper = before.request[1:].partition(";")[0].rpartition(".")[0]
            self.wakes.tell(CHANNELS + keeper, f"! asked {self.key}")
        if not wait:
            self._leave(asker.request)
            self._save(now)
            return [0, 0, now]
        place = self.place(asker.request) or self._placed(asker)
        left, ahead = -((now - self.grant.ends) // 1000), place.ticket - self.head
        check = min(left + min(50 * ahead, _LATE), _SELDOM) if ahead else min(left + 2, _OFTEN)
        place.deaf = asker.channel not in self.wakes.heard
        if place.deaf:
            check = min(check, _DEAF)
        place.claim, place.until, place.looks = min(lease, CLAIM_MS), now + PLACE, now + check * 1000
        self._save(now)
        return [0, check, now]

    def _lapsed(self, before: Grant | None) -> None:
        """A lease ran out: its process is to ask whether it still holds."""
        if before is not None and before.owner:
            self.wakes.tell(CHANNELS + before.owner.partition(":")[0], f"! look {self.key}")

    def withdraw(self, owner: str, request: str, now: int) -> None:
        """A request is taken back, whatever became of it."""
        if self.grant is not None and (self.grant.owner, self.grant.request) == (owner, request):
            self._pass(now)
        elif self.tail:
            self._leave(request)
            self._save(now)

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
        claim = waiter.claim
        if waiter.asker.channel not in self.wakes.heard:
            claim = max(1, min(claim, -((now - waiter.looks) // 1000) + _DEAF_LATE))
        grant = self._give(waiter.asker, claim, now)
        self.handed = grant.ends, waiter.asker.channel
        self.wakes.tell(waiter.asker.channel, sealed(waiter.asker.request, f"{grant.fence} {grant.ends}"))
        self._warn(now)

    def _warn(self, now: int) -> None:
        """The lock is free sooner than the next in line means to look: they are told, until three know of it."""
        assert self.grant is not None
        late = self.grant.ends + _LATE * 1000
        if self.grant.ends - now >= (_SELDOM - _LATE) * 1000:
            return
        near = [waiter for waiter in self.line if self.head <= waiter.ticket < self.head + _NEAR]
        for waiter in [one for one in near if one.until > now and one.asker.channel in self.wakes.heard][:3]:
            if waiter.looks > late:
                self.wakes.tell(waiter.asker.channel, f"{waiter.asker.request} look")

    def _placed(self, asker: Asker) -> Waiter:
        self.tail += 1
        self.head = self.head or self.tail
        self.line.append(Waiter(self.tail, asker))
        return self.line[-1]

    def _leave(self, request: str) -> None:
        if self.place(request) is None:
            return
        self.line = [waiter for waiter in self.line if waiter.asker.request != request]
        while self.head <= self.tail and all(waiter.ticket != self.head for waiter in self.line):
            self.head += 1

    def _first(self, now: int, mine: str = "", asking: str = "") -> Waiter | None:
        """Take the first live waiter out of the line, and those whose place has ended; who asks is alive.

        Who seems to be gone is passed over.
        """
        found = None
        for waiter in [one for one in self.line if one.ticket >= self.head]:
            self.head = waiter.ticket + 1
            known = waiter.asker.request == mine
            if known or waiter.until <= now or self._present(waiter, now, asking):
                if not known and waiter.until > now:
                    waiter = self._foremost(waiter, now)  # noqa: PLW2901 - it ends the loop
                    self.head = waiter.ticket + 1
                self.line.remove(waiter)
                if known or waiter.until > now:
                    found = waiter
                    break
            elif self.bottom is None:
                self.bottom = waiter.ticket
        else:
            self.head = self.tail and self.tail + 1
        self._save(now)
        return found

    def _foremost(self, waiter: Waiter, now: int) -> Waiter:
        """Those of its process that were passed over before it live as well."""
        if self.bottom is None:
            return waiter
        others = [one for one in self.line if self.bottom <= one.ticket < waiter.ticket and one.until > now]
        return next((one for one in others if one.asker.channel == waiter.asker.channel), waiter)

    def _unclaimed(self, before: Grant, now: int) -> None:
        """A process that let a hand-over lapse is silent."""
        if self.handed is not None and self.handed[0] == before.ends:
            self.silent = {channel: since for channel, since in self.silent.items() if since > now - _FORGET}
            self.silent[self.handed[1]] = now

    def _asks(self, channel: str) -> None:
        """Its waiters that were passed over are first again."""
        if self.silent.pop(channel, None) is not None and self.bottom is not None:
            self.head = min(self.head, self.bottom)

    def _present(self, waiter: Waiter, now: int, asking: str) -> bool:
        """Whether its process asks, or listens and claims what it gets; or whether it has promised to look soon."""
        channel = waiter.asker.channel
        promised = waiter.deaf and waiter.looks + _DEAF_LATE * 1000 > now
        heard = channel in self.wakes.heard
        return channel == asking or (channel not in self.silent and (heard or promised))

    def _save(self, now: int) -> None:
        """Places that have ended among those that were passed over are taken out, up to the first that has not."""
        while self.bottom is not None:
            place = next((waiter for waiter in self.line if waiter.ticket == self.bottom), None)
            if self.bottom >= self.head:
                self.bottom = None
            elif place is not None and place.until > now:
                break
            else:
                self.line = [waiter for waiter in self.line if waiter is not place]
                self.bottom += 1
        if not self.line:
            self.head, self.tail, self.bottom, self.silent = 0, 0, None, {}

    def _pass(self, now: int) -> None:
        first = self._first(now)
        if first is not None:
            self._hand(first, now)
        else:
            self.grant = None
            if not self.line:
                self.handed = None
