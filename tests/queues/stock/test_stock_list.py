"""The list of stocks: found on the server, and read without changing them."""

from __future__ import annotations

import redis

from lockwork import Lockwork


def test_stocks_of_all_queues(lw: Lockwork) -> None:
    phones, shoes = lw.stock("phones", 10), lw.stock("shoes", 5, queue="orders")
    phones.reserve("ada", 3)
    phones.confirm(phones.reserve("ben", 2))
    shoes.inspect()
    found = lw.stocks()
    assert [(each.queue, each.name) for each in found] == [("default", "phones"), ("orders", "shoes")]
    assert [each.status for each in found] == [phones.inspect(), shoes.inspect()]


async def test_a_list_changes_nothing(alw: Lockwork, admin: redis.Redis) -> None:
    await alw.stock("phones", 10).areserve("ada", 3, hold=0.001)
    before = admin.hgetall("lw:{q:default}:stock:phones")
    (found,) = await alw.astocks()
    assert (found.status.reserved, found.status.available) == (3, 7), "it ran out, and nothing has ended it yet"
    assert admin.hgetall("lw:{q:default}:stock:phones") == before
