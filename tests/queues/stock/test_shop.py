"""More features of stocks: extension, refunds, units withdrawn from sale, lists, and waiters."""

from __future__ import annotations

import asyncio
import threading

import pytest
import redis

from lockwork import LimitReached, Lockwork, ReservationEnded, SoldOut
from lockwork.protocol.stock.stock import Reservation, StockStatus
from lockwork.queues.stock import Stock
from processes import script, until


def test_extend_prolongs_a_reservation(lw: Lockwork) -> None:
    phones = lw.stock("phone", 3)
    held, short, sale = phones.reserve("bob", hold="1m"), phones.reserve("eve", hold="20ms"), phones.reserve("joe")
    assert 3500 < phones.extend(held, "1h") <= 3600
    assert 3500 < phones.extend(held.id, "1m") <= 3600, "extend never shortens"
    phones.confirm(sale)
    with pytest.raises(ReservationEnded, match="is already confirmed"):
        phones.extend(sale, "1h")
    until(lambda: phones.get(short) is None, "it ran out")
    with pytest.raises(ReservationEnded, match="has expired or was released"):
        phones.extend(short, "1h")


def test_refund_returns_units_limit_and_key(lw: Lockwork) -> None:
    phones = lw.stock("phone", 3, limit=2)
    sale = phones.reserve("bob", 2, key="order-1")
    with pytest.raises(ReservationEnded, match="is not confirmed: release it instead"):
        phones.refund(sale)
    phones.confirm(sale)
    for _ in range(2):
        phones.refund(sale)
    assert phones.inspect() == StockStatus(3, 3, 0, 0, 0)
    assert phones.reserve("bob", 2, key="order-1").created, "the buyer's limit and key are free again"


def test_refund_and_its_job_are_atomic(lw: Lockwork) -> None:
    @lw.task(queue="orders")
    def pay_back(buyer: str) -> None: ...

    phones = lw.stock("phone", 1, queue="orders")
    sale = phones.reserve("bob")
    phones.confirm(sale)
    phones.refund(sale, enqueue=pay_back.call("bob"))
    with pytest.raises(ReservationEnded, match="its units are on sale again, and nothing was enqueued"):
        phones.refund(sale, enqueue=pay_back.call("bob"))
    assert lw.queue("orders").status().enqueued == 1


def test_withdraw_removes_units_on_sale(lw: Lockwork) -> None:
    phones = lw.stock("phone", 5)
    phones.reserve("bob", 2)
    assert phones.withdraw(2) == StockStatus(3, 1, 2, 0, 0)
    with pytest.raises(SoldOut, match="stock 'phone' has 1 on sale: 2 cannot be withdrawn"):
        phones.withdraw(2)
    assert phones.withdraw(1).available == 0


def test_reservations_are_listed(lw: Lockwork) -> None:
    phones = lw.stock("phone", 2000)
    for number in range(1500):
        phones.reserve(f"b{number % 100}")
    sale = phones.reserve("eve", 3)
    phones.confirm(sale)
    short = phones.reserve("eve", hold="10ms")
    until(lambda: phones.get(short) is None, "it ran out")
    assert len(phones.reservations()) == 100
    assert len({found.id for found in phones.reservations(limit=5000)}) == 1501
    assert phones.reservations("eve") == [Reservation(sale.id, "eve", 3, "confirmed", 0, sale.fence, created=False)]
    assert len(phones.reservations("b7")) == 15
    assert phones.reservations("nobody") == []


def test_delete_removes_the_stock(lw: Lockwork, admin: redis.Redis) -> None:
    phones = lw.stock("phone", 2)
    assert not phones.delete()
    phones.reserve("bob")
    assert phones.delete()
    assert not admin.keys("*:stock:*") + admin.keys("*:holds:*")
    assert phones.inspect() == StockStatus(2, 2, 0, 0, 0), "the next use creates it again"


async def test_async_methods_of_stock_extensions(alw: Lockwork) -> None:
    phones = alw.stock("phone", 3)
    held = await phones.areserve("bob", wait=1)
    assert await phones.aextend(held, "2h") > 7000
    await phones.aconfirm(held)
    assert [found.id for found in await phones.areservations("bob")] == [held.id]
    await phones.arefund(held)
    assert (await phones.awithdraw(3)).total == 0
    assert await phones.adelete()


def waiting(phones: Stock, admin: redis.Redis, count: int) -> bool:
    return sum(str(field).startswith("b'w") for field in admin.hkeys(f"lw:{{q:default}}:stock:{phones.name}")) == count


def line(phones: Stock, admin: redis.Redis, wishes: list[tuple[str, int]]) -> tuple[list[threading.Thread], list[str]]:
    """Start buyers that wait, in this order; return their threads and the names of successful buyers."""
    got: list[str] = []

    def buy(buyer: str, n: int) -> None:
        phones.reserve(buyer, n, wait="20s")
        got.append(buyer)

    threads = []
    for number, wish in enumerate(wishes, 1):
        threads.append(threading.Thread(target=buy, args=wish))
        threads[-1].start()
        until(lambda number=number: waiting(phones, admin, number), "it waits")  # type: ignore[misc]
    return threads, got


def test_returned_units_go_to_the_first_waiter(lw: Lockwork, admin: redis.Redis) -> None:
    phones = lw.stock("phone", 2)
    first, second = phones.reserve("x"), phones.reserve("y")
    threads, got = line(phones, admin, [("a", 1), ("b", 1)])
    phones.release(first)
    until(lambda: got == ["a"], "the first got it")
    with pytest.raises(SoldOut):
        phones.reserve("z")
    phones.confirm(second)
    phones.refund(second)
    for thread in threads:
        thread.join()
    assert got == ["a", "b"]
    assert phones.inspect() == StockStatus(2, 0, 2, 0, 0)


def test_impossible_request_delays_no_waiter(lw: Lockwork, admin: redis.Redis) -> None:
    phones = lw.stock("phone", 2)
    phones.reserve("x", 2)
    threads, got = line(phones, admin, [("big", 3), ("small", 1)])
    phones.restock(1)
    until(lambda: got == ["small"], "who wants less got it")
    phones.restock(3)
    for thread in threads:
        thread.join()
    assert got == ["small", "big"]


def test_expired_units_are_granted_to_waiters_without_another_call(lw: Lockwork) -> None:
    phones = lw.stock("phone", 1)
    phones.reserve("x", hold="150ms")
    got = phones.reserve("a", wait="20s", hold="1h")
    assert got.expires_in > 3500, "its hold begins when it is claimed"
    assert phones.inspect().expired == 1


def test_reserve_raises_sold_out_after_its_wait(lw: Lockwork, admin: redis.Redis) -> None:
    phones = lw.stock("phone", 1, limit=1)
    phones.reserve("x")
    with pytest.raises(SoldOut, match=r"had fewer than 1 on sale for all of 0\.05 s"):
        phones.reserve("a", wait="50ms")
    with pytest.raises(LimitReached):
        phones.reserve("x", wait="20s")
    assert waiting(phones, admin, 0)


async def test_cancelled_waiter_lets_the_next_proceed(alw: Lockwork, admin: redis.Redis) -> None:
    phones = alw.stock("phone", 1)
    held = await phones.areserve("x")
    first, second = (asyncio.create_task(phones.areserve(name, wait=None)) for name in ("a", "b"))
    while not waiting(phones, admin, 2):
        await asyncio.sleep(0.005)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await phones.arelease(held)
    async with asyncio.timeout(4):
        assert (await second).buyer == "b"


def test_job_of_waiting_buyer_is_enqueued(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.task(queue="orders")
    def place(buyer: str) -> None: ...

    phones = lw.stock("phone", 1, queue="orders")
    phones.reserve("x", hold="50ms")
    held = phones.reserve("a", wait=20, enqueue=place.call("a"))
    assert lw.job(held.id, queue="orders").state() == "ready"
    assert lw.queue("orders").status().enqueued == 1


def test_dead_waiter_keeps_the_units_only_briefly(lw: Lockwork, url: str, admin: redis.Redis) -> None:
    """Granted units that are not claimed are granted to the next waiter."""
    phones = lw.stock("phone", 1)
    held = phones.reserve("x")
    code = "from lockwork import Lockwork\nLockwork().stock('phone', 1).reserve('dead', wait=None, hold='1h')"
    with script(code, url=url) as buyer:
        until(lambda: waiting(phones, admin, 1), "it waits")
        buyer.process.kill()
        buyer.wait()
    phones.release(held)
    assert phones.reserve("a", wait="20s").buyer == "a"
