"""An existing stock keeps its units, and a program that passes another quantity is warned once."""

from __future__ import annotations

import logging

import pytest
import redis

from commandstats import script_calls
from indexed import listed
from lockwork import Lockwork, SoldOut, Stock

SAID = (
    "stock 's' was created with 5 units, so the quantity 6 of this program has no effect: change the number on sale "
    "with restock() or withdraw(), and pass 5; or delete() the stock for a new sale"
)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return found


@pytest.fixture(params=["inspect", "reserve", "sold out", "wait", "restock"])
def call(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def use(stock: Stock, call: str) -> None:
    if call == "inspect":
        stock.inspect()
    elif call == "reserve":
        stock.reserve("ada")
    elif call == "sold out":
        with pytest.raises(SoldOut):
            stock.reserve("ada", 7)
    elif call == "wait":
        stock.reserve("ada", wait="1s")
    else:
        stock.restock(1)


def test_first_call_warns_of_another_quantity(
    lw: Lockwork, call: str, admin: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    assert lw.stock("s", 5).inspect().total == 5
    listed(admin, "default s", kind="stocks")
    before = script_calls(admin)
    use(lw.stock("s", 6), call)
    assert script_calls(admin) == before + 1
    assert warnings(caplog) == [SAID]
    use(lw.stock("s", 6), "inspect")
    assert lw.stock("s", 6, limit=1).inspect().total in (5, 6)
    assert not warnings(caplog)


def test_restock_and_withdraw_cause_no_warning(lw: Lockwork, caplog: pytest.LogCaptureFixture) -> None:
    lw.stock("s", 5).restock(4)
    lw.stock("s", 5).withdraw(2)
    lw.stock("s", 5).reserve("ada", 3)
    assert lw.stock("s", 5).inspect().total == 7
    assert not warnings(caplog)
    lw.stock("s", 6).inspect()
    assert warnings(caplog) == [SAID]


def test_deleted_stock_starts_with_a_new_quantity(lw: Lockwork, caplog: pytest.LogCaptureFixture) -> None:
    lw.stock("s", 5).reserve("ada", 2)
    lw.stock("s", 5).delete()
    assert lw.stock("s", 6).inspect().total == 6
    assert not warnings(caplog)


def test_stock_of_an_older_version_causes_no_warning(
    lw: Lockwork, admin: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    lw.stock("s", 5).inspect()
    admin.hdel("lw:{q:default}:stock:s", "opened")
    assert lw.stock("s", 6).inspect().total == 5
    assert not warnings(caplog)
