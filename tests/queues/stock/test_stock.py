"""Stocks: available, reserved and sold units always add up."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from lockwork import ConfigError, LimitReached, Lockwork, ReservationEnded, SoldOut, Stock
from lockwork.protocol.stock.stock import StockStatus
from processes import until


def counts(stock: Stock) -> tuple[int, int, int]:
    status = stock.inspect()
    assert status.total == status.available + status.reserved + status.sold
    return status.available, status.reserved, status.sold


def test_reserved_units_are_confirmed_or_released(lw: Lockwork) -> None:
    phones = lw.stock("phone", 5)
    assert counts(phones) == (5, 0, 0)
    bob = phones.reserve("bob", 2, hold="1m")
    assert (bob.buyer, bob.n, bob.state, bob.created) == ("bob", 2, "held", True)
    assert 50 < bob.expires_in <= 60
    eve = phones.reserve("eve")
    assert eve.fence > bob.fence
    assert counts(phones) == (2, 3, 0)
    phones.confirm(bob)
    assert counts(phones) == (2, 1, 2)
    phones.release(eve.id)
    assert counts(phones) == (3, 0, 2)
    assert phones.get(eve.id) is None
    found = phones.get(bob.id)
    assert found is not None
    assert (found.buyer, found.n, found.state, found.expires_in) == ("bob", 2, "confirmed", 0)


async def test_async_methods_of_stock(alw: Lockwork) -> None:
    phones = alw.stock("phone", 5)
    bob = await phones.areserve("bob", 2)
    eve = await phones.areserve("eve", 1)
    await phones.aconfirm(bob)
    await phones.arelease(eve)
    with pytest.raises(ReservationEnded):
        await phones.aconfirm(eve)
    with pytest.raises(SoldOut):
        await phones.areserve("eve", 4)
    found = await phones.aget(bob.id)
    assert found is not None
    assert found.state == "confirmed"
    assert await phones.ainspect() == StockStatus(5, 3, 0, 2, 0)
    assert (await phones.arestock(10)).available == 13


def test_sold_out_reserves_no_units(lw: Lockwork) -> None:
    phones = lw.stock("phone", 3)
    phones.reserve("bob", 2)
    with pytest.raises(SoldOut, match="stock 'phone' has fewer than 2 on sale; unpaid reservations may come back"):
        phones.reserve("eve", 2)
    assert counts(phones) == (1, 2, 0)
    phones.reserve("eve", 1)
    with pytest.raises(SoldOut):
        phones.reserve("joe")
    assert counts(phones) == (0, 3, 0)
    assert lw.stock("none", 0).inspect().available == 0
    with pytest.raises(SoldOut):
        lw.stock("none", 0).reserve("bob")


def test_repeated_confirm_and_release_have_no_effect(lw: Lockwork) -> None:
    phones = lw.stock("phone", 5)
    sale, gone = phones.reserve("bob", 2), phones.reserve("eve", 1)
    for _ in range(3):
        phones.confirm(sale)
        phones.release(gone)
    assert counts(phones) == (3, 0, 2)


def test_ended_reservation_stays_ended(lw: Lockwork) -> None:
    phones = lw.stock("phone", 5)
    sale, gone = phones.reserve("bob"), phones.reserve("eve")
    phones.confirm(sale)
    phones.release(gone)
    with pytest.raises(ReservationEnded, match=f"reservation '{sale.id}' of stock 'phone' is confirmed: a sale cannot"):
        phones.release(sale)
    with pytest.raises(ReservationEnded, match=f"'{gone.id}' .* has expired or was released: reserve again"):
        phones.confirm(gone)
    with pytest.raises(ReservationEnded, match="reserve again"):
        phones.confirm("nobody")
    phones.release("nobody")
    assert counts(phones) == (4, 0, 1)


def test_limit_counts_held_and_bought_units(lw: Lockwork) -> None:
    phones = lw.stock("phone", 10, limit=2)
    first = phones.reserve("bob")
    second = phones.reserve("bob")
    with pytest.raises(LimitReached, match="buyer 'bob' would hold more than 2 of stock 'phone'"):
        phones.reserve("bob")
    with pytest.raises(LimitReached):
        phones.reserve("eve", 3)
    phones.confirm(first)
    with pytest.raises(LimitReached):
        phones.reserve("bob")
    phones.release(second)
    phones.reserve("bob")
    phones.reserve("eve", 2)
    assert counts(phones) == (6, 3, 1)


def test_repeated_key_returns_the_same_reservation(lw: Lockwork) -> None:
    phones = lw.stock("phone", 10)
    first = phones.reserve("bob", 2, key="order-1")
    again = phones.reserve("bob", 2, key="order-1")
    assert (again.id, again.n, again.created, again.fence) == (first.id, 2, False, first.fence)
    phones.confirm(first)
    bought = phones.reserve("bob", 2, key="order-1")
    assert (bought.id, bought.state, bought.created) == (first.id, "confirmed", False)
    assert phones.reserve("bob", 2, key="order-2").created
    assert counts(phones) == (6, 2, 2)


def test_key_is_free_when_its_reservation_has_ended(lw: Lockwork) -> None:
    phones = lw.stock("phone", 10)
    first = phones.reserve("bob", key="order-1")
    phones.release(first)
    second = phones.reserve("bob", key="order-1")
    assert second.created
    assert second.id != first.id
    short = phones.reserve("eve", key="order-2", hold="20ms")
    until(lambda: phones.get(short.id) is None, "it ran out")
    assert phones.reserve("eve", key="order-2").created


def test_key_belongs_to_its_buyer(lw: Lockwork) -> None:
    phones = lw.stock("phone", 10)
    phones.reserve("bob", key="order-1")
    with pytest.raises(ConfigError, match="key 'order-1' of stock 'phone' belongs to a reservation of another buyer"):
        phones.reserve("eve", key="order-1")
    assert counts(phones) == (9, 1, 0)


def test_expired_reservation_returns_its_units(lw: Lockwork) -> None:
    phones = lw.stock("phone", 5, limit=3)
    short = phones.reserve("bob", 3, hold="50ms")
    held = phones.reserve("eve", 2)
    with pytest.raises(SoldOut):
        phones.reserve("joe")
    status = until(lambda: found if (found := phones.inspect()).available else None, "units came back")
    assert status == StockStatus(5, 3, 2, 0, 1)
    assert phones.get(short.id) is None
    with pytest.raises(ReservationEnded, match="expired"):
        phones.confirm(short)
    phones.release(short)
    assert phones.reserve("bob", 3).created  # the buyer's limit is free again
    phones.confirm(held)
    assert counts(phones) == (0, 3, 2)


def test_expired_units_are_sold_again_without_another_call(lw: Lockwork) -> None:
    phones = lw.stock("phone", 1)
    phones.reserve("bob", hold="30ms")

    def sold() -> bool:
        try:
            return phones.reserve("eve").created
        except SoldOut:
            return False

    until(sold, "it was sold again")
    assert phones.inspect().expired == 1


def test_reservations_that_expire_together_are_returned(lw: Lockwork) -> None:
    """The script needs several calls to return the units."""
    phones = lw.stock("phone", 1300)
    for number in range(1300):
        phones.reserve(f"b{number}", hold="300ms" if number > 5 else "10m")
    until(lambda: phones.inspect().available == 1294, "they ran out")
    assert phones.inspect() == StockStatus(1300, 1294, 6, 0, 1294)


def test_restock_adds_units(lw: Lockwork) -> None:
    phones = lw.stock("phone", 1)
    phones.reserve("bob")
    assert phones.restock(2) == StockStatus(3, 2, 1, 0, 0)
    assert phones.restock(2) == StockStatus(5, 4, 1, 0, 0)
    with pytest.raises(ConfigError, match="n must be a whole number from 1 to"):
        phones.restock(0)


def test_concurrent_restocks_count_once_during_expirations(lw: Lockwork) -> None:
    """A restock also returns expired units, and must be repeated for that."""
    from lockwork.protocol.stock import stock as stock_protocol

    phones = lw.stock("phone", 1200)
    for number in range(1200):
        phones.reserve(f"b{number}", hold="1ms")
    rules = phones._rules
    lw.runtime.run(_nothing())
    one, two = stock_protocol.status(rules, 5, "one"), stock_protocol.status(rules, 7, "two")
    driver: Any = lw.runtime._sync
    reply = driver.perform(next(one))
    lw.runtime.run(two)
    try:
        while True:
            reply = driver.perform(one.send(reply))
    except StopIteration:
        pass
    assert phones.inspect().total == 1212


def _nothing() -> Any:
    return
    yield


def test_first_quantity_of_a_stock_counts(lw: Lockwork) -> None:
    lw.stock("phone", 5).reserve("bob")
    assert lw.stock("phone", 500).inspect() == StockStatus(5, 4, 1, 0, 0)


def test_stocks_of_two_queues_and_two_names_are_apart(lw: Lockwork) -> None:
    one, two, three = lw.stock("a", 5), lw.stock("b", 5), lw.stock("a", 5, queue="orders")
    one.reserve("bob", 4)
    two.reserve("bob", 3)
    assert [stock.inspect().available for stock in (one, two, three)] == [1, 2, 5]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda lw: lw.stock("phone", -1), "quantity must be a whole number from 0 to"),
        (lambda lw: lw.stock("phone", 1.5), "quantity must be a whole number"),
        (lambda lw: lw.stock("phone", True), "quantity must be a whole number"),
        (lambda lw: lw.stock("phone", 5, limit=0), "limit must be a whole number from 1 to"),
        (lambda lw: lw.stock("phone", 5).reserve("bob", 0), "n must be a whole number from 1 to"),
        (lambda lw: lw.stock("phone", 5).reserve("bob", -1), "n must be a whole number"),
        (lambda lw: lw.stock("phone", 5).reserve("bob", 10**13), "n must be a whole number"),
        (lambda lw: lw.stock("phone", 5).reserve("bob", hold=0), "hold must be more than 0"),
        (lambda lw: lw.stock("phone", 5).reserve("bob", hold=-1), "hold must be between 0"),
        (lambda lw: lw.stock("phone", 5).reserve(5), "a buyer must be text, not 5"),
    ],
)
def test_wrong_arguments_are_refused(lw: Lockwork, make: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make(lw)
    assert lw.stock("phone", 5).inspect() == StockStatus(5, 5, 0, 0, 0)


def test_sale_keeps_three_fields_until_it_is_refunded(lw: Lockwork, admin: redis.Redis) -> None:
    """A reservation that ended otherwise leaves no field, and a deleted stock no key."""
    phones = lw.stock("phone", 100)
    key = "lw:{q:default}:stock:phone"
    phones.release(phones.reserve("first", key="first"))

    def fields() -> int:
        """Return the number of fields, without the counts by minute."""
        names: Any = admin.hkeys(key)
        return len([name for name in names if not name.startswith(b"m")])

    before = fields()
    sold = [phones.reserve(f"b{number}", key=f"k{number}") for number in range(20)]
    for number, reservation in enumerate(sold):
        if number < 10:
            phones.confirm(reservation)
        else:
            phones.release(reservation)
    assert fields() == before + 3 * 10
    for reservation in sold[:10]:
        phones.refund(reservation)
    assert fields() == before
    assert phones.delete()
    assert not [key for key in admin.scan_iter("lw:{q:default}:stock:*") if admin.exists(key)]
