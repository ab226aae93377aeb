"""A stock as plain Python: what is kept for whom, what is free, and who waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from model.bench import SECOND

TOTAL = 6
LIMIT = 3
_CLAIM = 4 * SECOND


@dataclass
class Reserved:
    """Units that a buyer holds or has bought."""

    buyer: str
    n: int
    key: str
    ends: int
    state: str = "held"
    claim: int = 0
    """How long it will be held once it is claimed, us; 0 when it is."""


@dataclass
class Waiter:
    """A buyer in line."""

    buyer: str
    n: int
    hold: int
    key: str
    place: int = 0
    """When its place ends, unless it looks again, us."""


class StockModel:
    """What the server should say; times in us."""

    def __init__(self) -> None:
        self.total = TOTAL
        self.kept: dict[str, Reserved] = {}
        self.ended: set[str] = set()
        self.expired = 0
        self.line: dict[str, Waiter] = {}
        """Who waits, in order."""

    def units(self, state: str) -> int:
        """How many units are in this state."""
        return sum(kept.n for kept in self.kept.values() if kept.state == state)

    def free(self) -> int:
        """How many are on sale."""
        return self.total - self.units("held") - self.units("confirmed")

    def bought(self, buyer: str) -> int:
        """How many a buyer has."""
        return sum(kept.n for kept in self.kept.values() if kept.buyer == buyer)

    def same(self, key: str) -> str | None:
        """The reservation that was made with this key."""
        return next((known for known, kept in self.kept.items() if key and kept.key == key), None)

    def known(self) -> list[str]:
        """All reservations there ever were."""
        return sorted({*self.kept, *self.ended})

    def end(self, id: str) -> None:
        """It is over with this one."""
        del self.kept[id]
        self.ended.add(id)

    def lapse(self, now: int) -> None:
        """What has run out is on sale again."""
        for id, kept in list(self.kept.items()):
            if kept.state == "held" and kept.ends <= now + 1:
                self.end(id)
                self.expired += 1

    def serve(self, now: int) -> None:
        """What is on sale goes to those in line whose wish can be met."""
        for id, waiter in list(self.line.items()):
            if self.free() <= 0:
                return
            if waiter.place <= now:
                del self.line[id]
            elif waiter.n <= self.free():
                met = self.same(waiter.key) is not None
                if met or self.bought(waiter.buyer) + waiter.n <= LIMIT:
                    del self.line[id]
                if not met and self.bought(waiter.buyer) + waiter.n <= LIMIT:
                    ends = now + min(_CLAIM, waiter.hold)
                    self.kept[id] = Reserved(waiter.buyer, waiter.n, waiter.key, ends, claim=waiter.hold)
