"""A naive stock, which reads the available number and then writes it. Tests add it to a copy of the shop."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import redis
import redis.asyncio

from lockwork import ReservationEnded, SoldOut, Task
from lockwork.protocol.stock.stock import Reservation, StockStatus

URL = os.environ["LOCKWORK_URL"]


class NaiveStock:
    """Looks like lockwork's own stock, but each step is two."""

    def __init__(self, total: int, place_order: Task[[str], Any, Any], order_paid: Task[[str], Any, Any]) -> None:
        self.total = total
        self.place_order = place_order
        self.order_paid = order_paid
        self.server = redis.asyncio.Redis.from_url(URL, decode_responses=True)

    async def areserve(self, buyer: str, **_: Any) -> Reservation:
        """Read, then write: a buyer who reads in between gets the same phone. A repeated request gets another."""
        available = await self.available()
        if available < 1:
            raise SoldOut("none left")
        await asyncio.sleep(0.005)
        await self.server.set("available", available - 1)
        job = await self.place_order.aenqueue(buyer)
        return Reservation(job.id, buyer, 1, "held", 0.5, 0, created=True)

    async def aconfirm(self, reservation: str, **_: Any) -> None:
        """Accept any payment, even a late one."""
        await self.server.sadd("paid", reservation)
        await self.order_paid.aenqueue(reservation)

    async def ainspect(self) -> StockStatus:
        """Return the counts from the naive stock's view."""
        available, sold = await self.available(), await self.server.scard("paid")
        return StockStatus(self.total, available, self.total - available - sold, sold, 0)

    def release(self, reservation: str) -> None:
        """Put an unpaid phone back."""
        with redis.Redis.from_url(URL) as server:
            if server.sismember("paid", reservation):
                raise ReservationEnded("paid")
            server.incr("available")

    async def available(self) -> int:
        """The number on the shelf."""
        return int(await self.server.get("available") or self.total)
