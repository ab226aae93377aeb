"""A stock in plain Python: reservations, free units, and waiting buyers."""

from __future__ import annotations

from dataclasses import dataclass

from models.bench import SECOND

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
    """Lifetime (us) of the hold once it is claimed; 0 if it needs no claim."""


@dataclass
class Waiter:
    """A waiting buyer."""

    buyer: str
    n: int
    hold: int
    key: str
    place: int = 0
    """End (us) of the waiter's place unless the buyer asks again."""


class StockModel:
    """The state that the server should have; times in us."""

    def __init__(self) -> None:
        self.total = TOTAL
        self.kept: dict[str, Reserved] = {}
        self.ended: set[str] = set()
        self.expired = 0
        self.line: dict[str, Waiter] = {}
        """Waiters by id, in order."""

    def units(self, state: str) -> int:
        """Return the number of units in this state."""
        return sum(kept.n for kept in self.kept.values() if kept.state == state)

    def free(self) -> int:
        """Return the number of units on sale."""
        return self.total - self.units("held") - self.units("confirmed")

    def bought(self, buyer: str) -> int:
        """Return the number of units that a buyer holds or has bought."""
        return sum(kept.n for kept in self.kept.values() if kept.buyer == buyer)

    def same(self, key: str) -> str | None:
        """Return the id of the reservation with this key, if any."""
        return next((known for known, kept in self.kept.items() if key and kept.key == key), None)

    def known(self) -> list[str]:
        """Return the ids of all current and ended reservations."""
        return sorted({*self.kept, *self.ended})

    def end(self, id: str) -> None:
        """End a reservation."""
        del self.kept[id]
        self.ended.add(id)

    def lapse(self, now: int) -> None:
        """End reservations that have run out; their units are on sale again."""
        for id, kept in list(self.kept.items()):
            if kept.state == "held" and kept.ends <= now + 1:
                self.end(id)
                self.expired += 1

    def serve(self, now: int) -> None:
        """Reserve free units for waiters, in order, skipping waiters that need more units than are free."""
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
