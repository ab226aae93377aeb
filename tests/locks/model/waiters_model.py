"""An exact model of one lock and its waiters: the server's reply to each request, and the messages that it sends.

`lock_machine` checks properties that any reply must have. This model predicts the one right reply: fence, deadline and
time of the next check. Times are the server's, in microseconds; `now` is the time of the request.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.protocol.locks.grants import CLAIM_MS, LockState
from lockwork.protocol.messages import seal
from models.bench import SECOND

SECRET = "a waiter's secret"

CHANNELS = "sim:wake:"
PLACE = 15 * SECOND
"""Lifetime of a waiter's place, in microseconds, unless the waiter asks again."""
_OFTEN, _SELDOM = 1000, 4900
"""Longest milliseconds until the next check: of the first waiter, and of the other waiters."""
_LATE = 900
"""Longest delay (ms) between the time when the lock becomes free and a later waiter's check."""
_NEAR = 100
"""Number of places, from the first, that can be warned of a grant that ends sooner than expected."""
_DEAF, _DEAF_LATE = 500, 400
"""For a waiter that does not listen: longest time (ms) until its next check, and the delay (ms) allowed for that check.
"""
_FORGET = 20 * SECOND
"""The server remembers a process that left a hand-over unclaimed for at least this time (us). It drops older entries
when it adds one.
"""


@dataclass(frozen=True)
class Asker:
    """One request of one owner. The owner's process may have stopped listening to its channel."""

    process: str
    owner: str
    request: str

    @property
    def channel(self) -> str:
        """Channel of the owner's process."""
        return CHANNELS + self.process


@dataclass
class Wakes:
    """Messages sent to processes. A channel without a subscriber receives none."""

    heard: set[str]
    messages: list[tuple[str, str]]

    def tell(self, channel: str, text: str) -> bool:
        """Publish a message; return True if a process received it."""
        if channel in self.heard:
            self.messages.append((channel, text))
        return channel in self.heard


def sealed(request: str, words: str) -> str:
    """Return a message with its seal, as the owner of `SECRET` receives it."""
    return f"{request} {seal(SECRET, request, words)} {words}"


@dataclass
class Grant:
    """The current grant. Owner and request are empty while the lock stays locked for its minimum after a release."""

    owner: str
    request: str
    fence: int
    ends: int


@dataclass
class Waiter:
    """One waiter's place."""

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
        """End (us) of the last hand-over unless it is claimed, and the channel of its receiver."""
        self.silent: dict[str, int] = {}
        """Channels of processes that left a hand-over unclaimed, each with the time of the discovery (us)."""
        self.bottom: int | None = None
        """The first ticket that was skipped."""
        self.head = self.tail = 0
        """The ticket that is served next, and the last ticket given out; both are 0 while there are no waiters."""

    def held(self, now: int) -> Grant | None:
        """Return the grant if its lease lasts."""
        return self.grant if self.grant is not None and self.grant.ends > now else None

    def place(self, request: str) -> Waiter | None:
        """Return the place of a request, if it has one."""
        return next((waiter for waiter in self.line if waiter.asker.request == request), None)

    def has(self, asker: Asker, now: int) -> bool:
        """Return True if the request holds the lock now."""
        grant = self.held(now)
        return grant is not None and (grant.owner, grant.request) == (asker.owner, asker.request)

    # -- scripts ------------------------------------------------------------------------------------------------------

    def ask(self, asker: Asker, lease: int, now: int, *, wait: bool, subscribed: bool = False) -> list[int]:
        """Acquire: grant a free lock to its first waiter; notify the keeper of a sticky lock that another request wants
        it. `subscribed`: the request says that its process is subscribed.
        """
        before, held, place = self.grant, self.held(now), self.place(asker.request)
        if place is not None and place.ticket < self.head:
            # a skipped waiter that asks again is first, unless skipped waiters before it can be reached again
            self.head = self.bottom if self.bottom is not None else place.ticket
        if held is None and before is not None:
            self._unclaimed(before, now)
        self._asks(asker.channel)
        if held is not None and self.has(asker, now):
            held.ends = max(held.ends, now + lease * 1000)
            self._save(now)
            return [1, held.fence, held.ends, now]
        if held is not None and held.owner == asker.owner:
            self._leave(asker.request)  # the owner asks with a new request, so it never received that grant
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
        known = self.place(asker.request)
        place = known or self._placed(asker)
        left, ahead = -((now - self.grant.ends) // 1000), place.ticket - self.head
        check = min(left + min(50 * ahead, _LATE), _SELDOM) if ahead else min(left + 2, _OFTEN)
        place.deaf = asker.channel not in self.wakes.heard and not (subscribed and known is None)
        if place.deaf:
            check = min(check, _DEAF)
        place.claim, place.until, place.looks = min(lease, CLAIM_MS), now + PLACE, now + check * 1000
        self._save(now)
        return [0, check, now, place.ticket]

    def _lapsed(self, before: Grant | None) -> None:
        """Notify the process of a lease that ran out, so that it checks its grant."""
        if before is not None and before.owner:
            self.wakes.tell(CHANNELS + before.owner.partition(":")[0], f"! look {self.key}")

    def withdraw(self, owner: str, request: str, now: int) -> None:
        """Abandon a request: end its grant, or remove its place."""
        if self.grant is not None and (self.grant.owner, self.grant.request) == (owner, request):
            self._pass(now)
        elif self.tail:
            self._leave(request)
            self._save(now)

    def release(self, owner: str, fence: int, now: int, *, again: bool, keep: int = 0) -> int:
        """End a grant of `owner`. Released in time with `keep`, the lock stays locked for `keep` ms."""
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
        """Extend the deadline if the lease has not ended."""
        held = self.held(now)
        if held is None or (held.owner, held.fence) != (owner, fence):
            return 0
        held.ends = max(held.ends, now + lease * 1000)
        return held.ends

    def adopt(self, asker: Asker, lease: int, owner: str, fence: int, now: int) -> list[int]:
        """Transfer the grant of `owner` with that fence to `asker`, once, with a higher fence; the waiters stay."""
        held = self.held(now)
        if held is not None and self.has(asker, now):
            return [held.fence, held.ends, now]
        if held is None or (held.owner, held.fence) != (owner, fence):
            return [0, 0, now]
        return self._granted(asker, lease, now)[1:]

    def force(self, fence: int, now: int, *, again: bool) -> int:
        """End the grant with that fence, and notify its owner's process."""
        held = self.held(now)
        if held is None or held.fence != fence:
            return int(again)
        self._pass(now)
        self.wakes.tell(CHANNELS + held.owner.partition(":")[0], f"! look {self.key}")
        return 1

    def state(self, now: int) -> LockState:
        """Return the state of the lock."""
        held, waiters = self.held(now), sum(waiter.until > now for waiter in self.line)
        if held is None:
            return LockState(None, "", self.fence, 0.0, waiters)
        return LockState(held.owner or None, held.request, self.fence, -((now - held.ends) // 1000) / 1000, waiters)

    # -- shared steps -------------------------------------------------------------------------------------------------

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
        """Notify waiters that would check too late for the end of the current grant, among the first three that can be
        reached.
        """
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
        """Remove and return the first live waiter, and remove expired places before it; `mine` counts as live.

        Waiters whose process seems to be gone are skipped.
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
        """Return the first skipped waiter of the same process, which lives as well, or else `waiter`."""
        if self.bottom is None:
            return waiter
        others = [one for one in self.line if self.bottom <= one.ticket < waiter.ticket and one.until > now]
        return next((one for one in others if one.asker.channel == waiter.asker.channel), waiter)

    def _unclaimed(self, before: Grant, now: int) -> None:
        """Mark the process of a hand-over that lapsed unclaimed as silent."""
        if self.handed is not None and self.handed[0] == before.ends:
            self.silent = {channel: since for channel, since in self.silent.items() if since > now - _FORGET}
            self.silent[self.handed[1]] = now

    def _asks(self, channel: str) -> None:
        """A silent process asks again: restart at the first skipped waiter."""
        if self.silent.pop(channel, None) is not None and self.bottom is not None:
            self.head = min(self.head, self.bottom)

    def _present(self, waiter: Waiter, now: int, asking: str) -> bool:
        """Return True if the process is asking, or listens and claims its hand-overs, or has promised to check soon."""
        channel = waiter.asker.channel
        promised = waiter.deaf and waiter.looks + _DEAF_LATE * 1000 > now
        heard = channel in self.wakes.heard
        return channel == asking or (channel not in self.silent and (heard or promised))

    def _save(self, now: int) -> None:
        """Remove expired places from the start of the skipped ones, and reset the counters if no waiters are left."""
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
