"""A stock of units on sale: reserve, confirm, release; it never oversells, and a job can be part of each step."""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.errors import ConfigError, LimitReached, ReservationEnded, SoldOut
from lockwork.protocol.effects import Argument, Call, Protocol
from lockwork.protocol.jobs import NewJob, push_arguments, push_keys
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.scripts import script


@dataclass(frozen=True, slots=True)
class Books:
    """One stock: the queue it lives with, its name, the units it opens with, and the limit per buyer (0: none)."""

    queue: QueueKeys
    name: str
    total: int
    limit: int

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of a step that may enqueue a job."""
        return (*push_keys(self.queue), *self.queue.stock(self.name))


@dataclass(frozen=True, slots=True)
class Reservation:
    """Units set aside for a buyer; `created` is False when this call met an earlier reservation of the same key.

    `state` is "held" or "confirmed"; `expires_in` is in seconds, 0 once confirmed; `fence` rises from one to the next.
    """

    id: str
    buyer: str
    n: int
    state: str
    expires_in: float
    fence: int
    created: bool


@dataclass(frozen=True, slots=True)
class StockStatus:
    """Units by place (total = available + reserved + sold), and how many reservations ran out so far."""

    total: int
    available: int
    reserved: int
    sold: int
    expired: int


_STATES = {b"h": "held", b"c": "confirmed"}


def reserve(
    books: Books, id: str, buyer: str, n: int, hold_ms: int, key: str, job: NewJob | None
) -> Protocol[Reservation]:
    """Reserve `n` units; raises SoldOut or LimitReached, and then no job was enqueued either."""
    args: list[Argument] = [books.total, books.limit, id, buyer, n, hold_ms, key]
    if job is not None:
        args += push_arguments([job])
    code, known, state, units, left, fence, created = yield Call(script("stock_reserve"), books.keys, args)
    if code == 0:
        raise SoldOut(f"stock {books.name!r} has fewer than {n} on sale; unpaid reservations may come back later")
    if code == -2:
        raise ConfigError(f"key {key!r} of stock {books.name!r} belongs to a reservation of another buyer")
    if code < 0:
        raise LimitReached(f"buyer {buyer!r} would hold more than {books.limit} of stock {books.name!r}")
    return Reservation(known.decode(), buyer, units, _STATES[state], left / 1000, fence, bool(created))


def confirm(books: Books, id: str, job: NewJob | None) -> Protocol[None]:
    """Turn a held reservation into a sale; raises ReservationEnded when it expired or was released."""
    if (yield _end(books, "c", id, job)) == 0:
        raise ReservationEnded(f"reservation {id!r} of stock {books.name!r} has expired or was released: reserve again")


def release(books: Books, id: str, job: NewJob | None) -> Protocol[None]:
    """Give a reservation's units back; raises ReservationEnded when it was confirmed, because then it is a sale."""
    if (yield _end(books, "r", id, job)) < 0:
        raise ReservationEnded(f"reservation {id!r} of stock {books.name!r} is confirmed: a sale cannot be released")


def look(books: Books, id: str) -> Protocol[Reservation | None]:
    """Read one reservation; None when it expired, was released or never was."""
    reply = yield Call(script("stock_look"), books.queue.stock(books.name), [id])
    if not reply:
        return None
    state, buyer, units, left, fence = reply
    return Reservation(id, buyer.decode(), units, _STATES[state], left / 1000, fence, created=False)


def status(books: Books, add: int = 0, request: str = "") -> Protocol[StockStatus]:
    """Count the units by place, after adding `add` of them (once per `request`)."""
    call = Call(script("stock_state"), books.queue.stock(books.name), [books.total, add, request])
    while True:
        total, sold, held, expired, more = yield call
        if not more:
            return StockStatus(total, total - sold - held, held, sold, expired)
        call = Call(script("stock_state"), books.queue.stock(books.name), [books.total, 0, ""])


def _end(books: Books, verb: str, id: str, job: NewJob | None) -> Call:
    jobs = [] if job is None else push_arguments([job])
    return Call(script("stock_end"), books.keys, [books.total, verb, id, *jobs])
