"""A stock of units on sale: reserve, confirm, release. It never oversells, and each step can enqueue a job.

Buyers and keys of reservations are stored names here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Struct

from lockwork import words
from lockwork.errors import ConfigError, LimitReached, LockworkError, ReservationEnded, SoldOut
from lockwork.logs import Log
from lockwork.protocol import slots
from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.index import index
from lockwork.protocol.keys import QueueKeys, StockKeys
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.names import display, shown, typed
from lockwork.protocol.queue.enqueue import NewJob, push_arguments
from lockwork.protocol.queue.limits import room_for
from lockwork.protocol.retry import patience, undo
from lockwork.protocol.scripts import codes

log: Log = Log("lockwork")


@dataclass(frozen=True, slots=True)
class StockRules:
    """One stock: the queue that it belongs to, its name, its initial units, and the limit per buyer (0: none)."""

    queue: QueueKeys
    name: str
    total: int
    limit: int
    warned: set[StockKeys] = field(default_factory=set, compare=False)
    """Stocks of this app with a logged warning."""

    @property
    def shown(self) -> str:
        """The name in error messages."""
        return display(self.name)

    @property
    def keys(self) -> StockKeys:
        """The keys of the stock itself."""
        return self.queue.stock(self.name)


class Reservation(Struct, frozen=True):
    """Units reserved for a buyer; `created` is False when this call found an earlier reservation with the same key.

    `state` is "held" or "confirmed"; `expires_in` is in seconds, 0 once confirmed; `fence` increases with each
    reservation.
    """

    id: str
    buyer: str
    n: int
    state: str
    expires_in: float
    fence: int
    created: bool


class StockStatus(Struct, frozen=True):
    """Units by place (total = available + reserved + sold), and the number of expired reservations."""

    total: int
    available: int
    reserved: int
    sold: int
    expired: int


class StockMinute(NamedTuple):
    """Units that were reserved and sold in one minute."""

    reserved: int = 0
    sold: int = 0


MOST_MINUTES = 60
"""Number of minutes that the server stores. stock/parts/stock.lua depends on it."""
_MOST_WARNED = 1000
_STATES = {b"h": "held", b"c": "confirmed"}
_SCAN = 1000
"""Limit per call of fields of a stock to read."""
_TOGETHER = 100
"""Number of stocks per call whose units are read."""
_CHARTED, _CHARTED_TOGETHER = 100, 20
"""Number of stocks whose minutes are read, and the number of such stocks per call."""


def reserve(
    rules: StockRules, id: str, buyer: str, n: int, hold_ms: int, key: str, job: NewJob | None
) -> Protocol[Reservation]:
    """Reserve `n` units, and enqueue `job`. Raises SoldOut, LimitReached or QueueFull; no job is enqueued then.

    When interrupted, it puts the units back on sale, unless its job is already enqueued.
    """
    args: list[Argument] = [rules.total, rules.limit, id, buyer, n, hold_ms, key]
    if job is not None:
        args += push_arguments([job])
    try:
        reply = yield script_call("stock/reserve", rules.queue, args, **rules.keys._asdict())
    except (GeneratorExit, LockworkError):
        raise
    except BaseException as error:
        yield from _leave(rules, id, job, error)
        raise
    _compare(rules, reply[-1])
    if reply[0] == codes("stock/reserve").sold_out:
        raise SoldOut(f"stock {rules.shown!r} has fewer than {n} on sale; unpaid reservations may come back later")
    return _reserved(rules, buyer, key, reply)


def reserve_waiting(
    rules: StockRules,
    id: str,
    buyer: str,
    n: int,
    hold_ms: int,
    key: str,
    job: NewJob | None,
    *,
    channel: str,
    wait: float | None,
) -> Protocol[Reservation]:
    """Reserve as `reserve`, and wait at most `wait` seconds (None: without a limit) for units that are released.

    When interrupted, it stops waiting, and its units go to other callers, unless its job is already enqueued.
    """
    began = yield Clock()
    give_up = None if wait is None else began + wait
    jobs = [] if job is None else push_arguments([job])
    hints = Hints()
    try:
        while True:
            sent = yield Clock()
            here = channel if give_up is None or sent < give_up else ""
            args = [rules.total, rules.limit, id, buyer, n, hold_ms, key, here, *jobs]
            reply = yield script_call("stock/wait", rules.queue, args, patience(give_up, sent), **rules.keys._asdict())
            _compare(rules, reply[-1])
            if reply[0] != codes("stock/wait").sold_out:
                return _reserved(rules, buyer, key, reply)
            if not here:
                raise SoldOut(f"stock {rules.shown!r} had fewer than {n} on sale for all of {words.exact(wait)}")
            until = (yield Clock()) + reply[4] / 1_000_000
            yield from listen(hints, id, until if give_up is None else min(until, give_up), key=rules.queue.jobs)
    except (GeneratorExit, SoldOut, LimitReached, ConfigError):
        raise
    except BaseException as error:
        yield from _leave(rules, id, job, error)
        raise


def _compare(rules: StockRules, opened: int) -> None:
    """Log a warning, once, if the stock was created with another number of units than this app passes."""
    if opened == rules.total or rules.keys in rules.warned or len(rules.warned) == _MOST_WARNED:
        return
    rules.warned.add(rules.keys)
    log.warning(
        "stock %r was created with %d units, so the quantity %d of this program has no effect: change the number on "
        "sale with restock() or withdraw(), and pass %d; or delete() the stock for a new sale",
        rules.shown, opened, rules.total, opened,
    )  # fmt: skip


def _leave(rules: StockRules, id: str, job: NewJob | None, why: BaseException) -> Protocol[None]:
    # if the server is unreachable, the waiter's place expires, and soon after it any unclaimed units
    args: list[Argument] = [id, int(job is None)]
    yield from undo(script_call("stock/leave", rules.keys, args), why)


def _reserved(rules: StockRules, buyer: str, key: str, reply: list[Any]) -> Reservation:
    code, reservation_id, state, units, left, fence, created, _ = reply
    results = codes("stock/reserve")
    if code == results.other_buyer:
        raise ConfigError(f"key {shown(key)!r} of stock {rules.shown!r} belongs to a reservation of another buyer")
    if code == results.queue_full:
        room_for(rules.queue, [units, left])
    if code == results.over_limit:
        raise LimitReached(f"buyer {shown(buyer)!r} would hold more than {rules.limit} of stock {rules.shown!r}")
    return Reservation(reservation_id.decode(), shown(buyer), units, _STATES[state], left / 1000, fence, bool(created))


def confirm(rules: StockRules, id: str, job: NewJob | None) -> Protocol[None]:
    """Turn a held reservation into a sale; raises ReservationEnded when it expired or was released."""
    if (yield from _end(rules, "c", id, job)) == codes("stock/end").missing:
        raise ReservationEnded(
            f"reservation {id!r} of stock {rules.shown!r} has expired or was released: reserve again"
        )


def release(rules: StockRules, id: str, job: NewJob | None) -> Protocol[None]:
    """Put a reservation's units back on sale; raises ReservationEnded when it is confirmed, because it is then a sale.

    With a job, also raises ReservationEnded when the units are already back, except if an earlier call with this same
    job released them. The job is not enqueued then.
    """
    code = yield from _end(rules, "r", id, job)
    if code == codes("stock/end").missing:
        raise _back_already(rules, id)
    if code == codes("stock/end").confirmed_before:
        raise ReservationEnded(f"reservation {id!r} of stock {rules.shown!r} is confirmed: a sale cannot be released")


def refund(rules: StockRules, id: str, job: NewJob | None) -> Protocol[None]:
    """Put a sale's units back on sale; raises ReservationEnded when it is not yet confirmed.

    With a job, also raises it when the units are already back, as `release` does.
    """
    code = yield from _end(rules, "f", id, job)
    if code == codes("stock/end").missing:
        raise _back_already(rules, id)
    if code == codes("stock/end").still_held:
        raise ReservationEnded(f"reservation {id!r} of stock {rules.shown!r} is not confirmed: release it instead")


def extend(rules: StockRules, id: str, hold_ms: int) -> Protocol[float]:
    """Hold a reservation for at least `hold_ms` from now; return the remaining seconds. Raises ReservationEnded."""
    code, remaining_ms = yield script_call("stock/extend", rules.keys, [id, hold_ms])
    if code == codes("stock/extend").confirmed:
        raise ReservationEnded(f"reservation {id!r} of stock {rules.shown!r} is already confirmed")
    if code == codes("stock/extend").missing:
        raise ReservationEnded(
            f"reservation {id!r} of stock {rules.shown!r} has expired or was released: reserve again"
        )
    return float(remaining_ms / 1000)


def read_reservation(rules: StockRules, id: str) -> Protocol[Reservation | None]:
    """Read one reservation; None when it expired, was released or never existed."""
    reply = yield script_call("stock/reservation", rules.keys, [id])
    if not reply:
        return None
    state, buyer, units, remaining_ms, fence = reply
    return Reservation(id, shown(buyer.decode()), units, _STATES[state], remaining_ms / 1000, fence, created=False)


def reservations(rules: StockRules, buyer: str, count: int) -> Protocol[list[Reservation]]:
    """Read up to `count` reservations, of one buyer or (empty) of all, unordered.

    Includes every reservation that exists during the whole call.
    """
    by_id: dict[str, Reservation] = {}
    cursor: bytes | str = "0"
    while True:
        args = [cursor, buyer, _SCAN]
        cursor, *parts = yield script_call("stock/list", rules.keys, args)
        for at in range(0, len(parts), 6):
            id, state, owner, units, remaining_ms, fence = parts[at : at + 6]
            reservation = Reservation(
                id.decode(), shown(owner.decode()), units, _STATES[state], remaining_ms / 1000, fence, created=False
            )
            by_id[reservation.id] = reservation
        if cursor == b"0" or len(by_id) >= count:
            return list(by_id.values())[:count]


def status(rules: StockRules, add: int = 0, request: str = "") -> Protocol[StockStatus]:
    """Count the units by place, after adding `add` units (once per `request`); a negative number withdraws units.

    Raises SoldOut when fewer units are on sale; nothing is withdrawn then.
    """
    call = script_call("stock/state", rules.keys, [rules.total, add, request])
    while True:
        total, sold, held, expired, more, changed, opened = yield call
        _compare(rules, opened)
        if not changed:
            available = total - sold - held
            raise SoldOut(f"stock {rules.shown!r} has {available} on sale: {-add} cannot be withdrawn")
        if not more:
            return StockStatus(total, total - sold - held, held, sold, expired)
        call = script_call("stock/state", rules.keys, [rules.total, 0, ""])


def overview(prefix: str, minutes: int) -> Protocol[list[tuple[str, str, StockStatus, tuple[StockMinute, ...]]]]:
    """Read all stocks: queue, name, units, and the units reserved and sold in each of the last minutes, oldest first.

    Only the first 100 stocks have minutes. Reservations that expired since the last call still count as reserved.
    """
    names_by_queue: dict[str, list[str]] = {}
    for each in sorted((yield from index.read(prefix, index.STOCKS))):
        tag, _, name = each.partition(" ")
        names_by_queue.setdefault(slots.queue_of(tag), []).append(shown(name))
    status: list[tuple[str, str, StockStatus, tuple[StockMinute, ...]]] = []
    for queue, names in sorted(names_by_queue.items()):
        keys = QueueKeys(prefix, queue)
        remaining = list(names)
        while remaining:
            read = minutes if len(status) < _CHARTED else 0
            step = _CHARTED_TOGETHER if read else _TOGETHER
            some, remaining = remaining[:step], remaining[step:]
            reply = yield script_call("stock/counts", [keys.stock(typed(name)).stock for name in some], [read])
            for name, (first, *counts) in zip(some, reply, strict=True):
                if first is not None:
                    total, sold, held, expired = map(int, (first, *counts[:3]))
                    units = StockStatus(total, total - sold - held, held, sold, expired)
                    status.append((queue, name, units, _minutes(counts[3:], read)))
    return status


def _minutes(counts: list[int], minutes: int) -> tuple[StockMinute, ...]:
    by_minute = {counts[at]: StockMinute(*counts[at + 1 : at + 3]) for at in range(0, len(counts), 3)}
    return tuple(by_minute.get(ago, StockMinute()) for ago in reversed(range(minutes)))


def delete(rules: StockRules, request: str) -> Protocol[bool]:
    """Delete the stock, once per `request`; return False when it does not exist."""
    return bool(
        (yield script_call("stock/delete", rules.keys, [request], deleted=rules.queue.stock_deleted(rules.name)))
    )


def _end(rules: StockRules, verb: str, id: str, job: NewJob | None) -> Protocol[int]:
    jobs = [] if job is None else push_arguments([job])
    reply = yield script_call("stock/end", rules.queue, [rules.total, verb, id, *jobs], **rules.keys._asdict())
    return room_for(rules.queue, reply)


def _back_already(rules: StockRules, id: str) -> ReservationEnded:
    return ReservationEnded(
        f"reservation {id!r} of stock {rules.shown!r} has expired, was released or refunded: its units are on sale "
        "again, and nothing was enqueued"
    )
