"""The list of stocks, which is read from the server without changes."""

from __future__ import annotations

import redis

from lockwork import Lockwork


def test_stocks_of_all_queues_are_listed(lw: Lockwork) -> None:
    phones, shoes = lw.stock("phones", 10), lw.stock("shoes", 5, queue="orders")
    phones.reserve("ada", 3)
    phones.confirm(phones.reserve("ben", 2))
    shoes.inspect()
    found = lw.stocks()
    assert [(each.queue, each.name) for each in found] == [("default", "phones"), ("orders", "shoes")]
    assert [each.status for each in found] == [phones.inspect(), shoes.inspect()]


async def test_list_of_stocks_changes_no_stock(alw: Lockwork, admin: redis.Redis) -> None:
    await alw.stock("phones", 10).areserve("ada", 3, hold=0.001)
    before = admin.hgetall("lw:{q:default}:stock:phones")
    (found,) = await alw.astocks()
    assert (found.status.reserved, found.status.available) == (3, 7), (
        "the reservation has expired, but was not removed yet"
    )
    assert admin.hgetall("lw:{q:default}:stock:phones") == before
