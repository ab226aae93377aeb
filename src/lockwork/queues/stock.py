"""The handle of a stock of units on sale: `phones.reserve(buyer, enqueue=place_order.call(buyer))`."""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.config import Config
from lockwork.durations import Duration, milliseconds, seconds
from lockwork.errors import ConfigError
from lockwork.ids import new_id
from lockwork.jobs.options import with_stock
from lockwork.naming import literal
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys, StockKeys, checked, checked_queue
from lockwork.protocol.names import checked_name, stored
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.stock import stock as stock_protocol
from lockwork.protocol.stock.stock import Reservation, StockMinute, StockRules, StockStatus
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.announcing import Announcing
from lockwork.tasks.call import TaskCall
from lockwork.validation import whole

MOST = 10**12


@dataclass(frozen=True, slots=True)
class StockSummary:
    """One stock of a list: its name, the queue that it lives with, and its units by place."""

    name: str
    queue: str
    status: StockStatus
    minutes: tuple[StockMinute, ...] = ()
    """Units that were reserved and sold in each of the last minutes, the oldest first; none if they were not read."""


def stocks(prefix: str, minutes: int) -> Protocol[list[StockSummary]]:
    """Find all stocks, and read their counts."""
    read = whole(minutes, "minutes", 0, stock_protocol.MOST_MINUTES)
    rows = yield from stock_protocol.overview(prefix, read)
    return [StockSummary(name, queue, status, by_minute) for queue, name, status, by_minute in rows]


class Stock:
    """Units that are reserved, then confirmed or released; an expired reservation returns its units.

    It belongs to a queue, so that a change and the job it enqueues are one atomic step.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        announcing: Announcing,
        name: str,
        quantity: int,
        *,
        limit: int | None,
        queue: str,
        warned: set[StockKeys],
    ) -> None:
        self._announcing = announcing
        self.name: str = literal(name, "a stock's name")
        self._partitions = config.partitions
        self._max_payload = config.max_payload
        self.queue: str = self._partitions.place(checked_queue(queue), stored(name))
        self._runtime = runtime
        self._rules = StockRules(
            QueueKeys(config.prefix, self.queue),
            name,
            whole(quantity, "quantity", 0, MOST),
            0 if limit is None else whole(limit, "limit", 1, MOST),
            warned,
        )

    def reserve(
        self,
        buyer: str,
        n: int = 1,
        *,
        hold: Duration = "10m",
        key: str | None = None,
        enqueue: TaskCall | None = None,
        wait: Duration | None = 0,
    ) -> Reservation:
        """Set `n` units aside for `buyer` until `hold` is over, and enqueue a job whose id is the reservation's.

        With `key`, a second call returns the first one's reservation while that lasts, and enqueues nothing. `wait` is
        how long to wait for returned units (0: do not wait, None: without limit): they go to the first waiter whose
        request they satisfy. Raises SoldOut, LimitReached, or QueueFull if the queue is full; then nothing was reserved
        or enqueued.
        """
        return self._runtime.run(self._reserve(buyer, n, hold, key, enqueue, wait))

    async def areserve(
        self,
        buyer: str,
        n: int = 1,
        *,
        hold: Duration = "10m",
        key: str | None = None,
        enqueue: TaskCall | None = None,
        wait: Duration | None = 0,
    ) -> Reservation:
        """Async version of `reserve`; cancelled, it puts the units back on sale, unless its job is enqueued already."""
        return await self._runtime.arun(self._reserve(buyer, n, hold, key, enqueue, wait))

    def confirm(self, reservation: str | Reservation, *, enqueue: TaskCall | None = None) -> None:
        """Turn the reservation into a sale, and enqueue a job with it; a second call has no effect.

        Raises ReservationEnded if it expired or was released.
        """
        self._runtime.run(stock_protocol.confirm(self._rules, _id(reservation), self._job(enqueue)))

    async def aconfirm(self, reservation: str | Reservation, *, enqueue: TaskCall | None = None) -> None:
        """Async version of `confirm`."""
        await self._runtime.arun(stock_protocol.confirm(self._rules, _id(reservation), self._job(enqueue)))

    def release(self, reservation: str | Reservation, *, enqueue: TaskCall | None = None) -> None:
        """Return the units; no effect if they were already returned. Raises ReservationEnded if it was confirmed.

        With a job, it also raises ReservationEnded if the units were already returned; then nothing is enqueued.
        """
        self._runtime.run(stock_protocol.release(self._rules, _id(reservation), self._job(enqueue)))

    async def arelease(self, reservation: str | Reservation, *, enqueue: TaskCall | None = None) -> None:
        """Async version of `release`."""
        await self._runtime.arun(stock_protocol.release(self._rules, _id(reservation), self._job(enqueue)))

    def refund(self, reservation: str | Reservation, *, enqueue: TaskCall | None = None) -> None:
        """Reverse a sale and put its units on sale again; a second call has no effect.

        Raises ReservationEnded if the reservation is not confirmed: release it instead. With a job, it also raises it
        if the units were already returned; then nothing is enqueued.
        """
        self._runtime.run(stock_protocol.refund(self._rules, _id(reservation), self._job(enqueue)))

    async def arefund(self, reservation: str | Reservation, *, enqueue: TaskCall | None = None) -> None:
        """Async version of `refund`."""
        await self._runtime.arun(stock_protocol.refund(self._rules, _id(reservation), self._job(enqueue)))

    def extend(self, reservation: str | Reservation, hold: Duration) -> float:
        """Make a reservation last at least `hold` from now; returns the seconds that it lasts.

        Raises ReservationEnded if it expired, was released, or is confirmed.
        """
        return self._runtime.run(stock_protocol.extend(self._rules, _id(reservation), milliseconds(hold, "hold")))

    async def aextend(self, reservation: str | Reservation, hold: Duration) -> float:
        """Async version of `extend`."""
        return await self._runtime.arun(
            stock_protocol.extend(self._rules, _id(reservation), milliseconds(hold, "hold"))
        )

    def get(self, reservation: str | Reservation) -> Reservation | None:
        """Read a reservation; None if it expired, was released, or never existed."""
        return self._runtime.run(stock_protocol.read_reservation(self._rules, _id(reservation)))

    async def aget(self, reservation: str | Reservation) -> Reservation | None:
        """Async version of `get`."""
        return await self._runtime.arun(stock_protocol.read_reservation(self._rules, _id(reservation)))

    def reservations(self, buyer: str | None = None, limit: int = 100) -> list[Reservation]:
        """List up to `limit` reservations, held and confirmed, of one buyer or of all, in no particular order.

        It reads the whole stock, a thousand reservations at a time, so do not call it in each request of a shop.
        """
        return self._runtime.run(self._reservations(buyer, limit))

    async def areservations(self, buyer: str | None = None, limit: int = 100) -> list[Reservation]:
        """Async version of `reservations`."""
        return await self._runtime.arun(self._reservations(buyer, limit))

    def inspect(self) -> StockStatus:
        """Count the units: total = available + reserved + sold, always."""
        return self._runtime.run(stock_protocol.status(self._rules))

    async def ainspect(self) -> StockStatus:
        """Async version of `inspect`."""
        return await self._runtime.arun(stock_protocol.status(self._rules))

    def restock(self, n: int) -> StockStatus:
        """Put `n` more units on sale."""
        return self._runtime.run(stock_protocol.status(self._rules, whole(n, "n", 1, MOST), new_id()))

    async def arestock(self, n: int) -> StockStatus:
        """Async version of `restock`."""
        return await self._runtime.arun(stock_protocol.status(self._rules, whole(n, "n", 1, MOST), new_id()))

    def withdraw(self, n: int) -> StockStatus:
        """Withdraw `n` unsold units from sale; raises SoldOut, without any effect, if fewer are on sale."""
        return self._runtime.run(stock_protocol.status(self._rules, -whole(n, "n", 1, MOST), new_id()))

    async def awithdraw(self, n: int) -> StockStatus:
        """Async version of `withdraw`."""
        return await self._runtime.arun(stock_protocol.status(self._rules, -whole(n, "n", 1, MOST), new_id()))

    def delete(self) -> bool:
        """Delete the stock; False if it did not exist. The next use creates it again."""
        return self._runtime.run(stock_protocol.delete(self._rules, new_id()))

    async def adelete(self) -> bool:
        """Async version of `delete`."""
        return await self._runtime.arun(stock_protocol.delete(self._rules, new_id()))

    def _reservations(self, buyer: str | None, limit: int) -> Protocol[list[Reservation]]:
        name = "" if buyer is None else stored(checked_name(buyer, "a buyer"))
        return stock_protocol.reservations(self._rules, name, whole(limit, "limit", 1, MOST))

    def _reserve(
        self, buyer: str, n: int, hold: Duration, key: str | None, enqueue: TaskCall | None, wait: Duration | None
    ) -> Protocol[Reservation]:
        name = stored(checked_name(buyer, "a buyer"))
        units = whole(n, "n", 1, MOST)
        stored_key = "" if key is None else stored(checked_name(key, "a reservation's key"))
        id = new_id()
        job = self._job(enqueue, id)
        hold_ms = milliseconds(hold, "hold")
        patience = None if wait is None else seconds(wait, "wait", zero=True)
        if patience == 0:
            reserving = stock_protocol.reserve(self._rules, id, name, units, hold_ms, stored_key, job)
        else:
            channel = self._runtime.channel
            reserving = stock_protocol.reserve_waiting(
                self._rules, id, name, units, hold_ms, stored_key, job, channel=channel, wait=patience
            )
        return reserving if job is None else self._announcing.after(reserving)

    def _job(self, call: TaskCall | None, id: str | None = None) -> NewJob | None:
        if call is None:
            return None
        if not isinstance(call, TaskCall):
            raise ConfigError(f"a stock enqueues a call of a task, such as place_order.call(42), not {call!r:.60}")
        if not self._partitions.belongs(self.queue, call.queue, call.record, f"stock {self._rules.shown!r}"):
            raise ConfigError(
                f"stock {self._rules.shown!r} lives with queue {self.queue!r} and the task's queue is {call.queue!r}: "
                f"one atomic step needs one queue: make it lw.stock({self._rules.shown!r}, ..., queue={call.queue!r})"
            )
        job = call.job(id or new_id())
        record, payloads = with_stock(job.record, self._rules.shown, self._max_payload), self._runtime.payloads
        return job._replace(record=record if payloads is None else payloads.seal_call(self.queue, job.id, record))

    def __repr__(self) -> str:
        return f"<Stock {self._rules.shown!r} queue={self.queue!r}>"


def _id(reservation: str | Reservation) -> str:
    return checked(reservation.id if isinstance(reservation, Reservation) else reservation, "a reservation's id")
