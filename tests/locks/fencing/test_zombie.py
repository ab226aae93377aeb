"""A holder that was stopped past its lease, wakes up, and writes: every store that checks the fence refuses it."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lockwork import Lockwork
from lockwork.contrib.fenced_sql import FencedTable
from lockwork.errors import StaleFence
from processes import script

ORDERS = FencedTable("orders")

ZOMBIE = """
import sqlite3, sys
from contextlib import closing
from lockwork import LockLost, Lockwork
from lockwork.errors import StaleFence
from lockwork.contrib.fenced_sql import FencedTable

orders = FencedTable("orders")

def refused(write):
    try:
        write()
    except StaleFence as error:
        return error.seen
    return 0

with Lockwork(lock_lease="1s") as lw, closing(sqlite3.connect(sys.argv[1], timeout=30)) as shop:
    register = lw.fenced("order:42")
    grant = lw.lock("order:42").acquire()
    orders.update(shop, 42, {"state": "packing"}, grant)
    shop.commit()
    register.set("packing", grant)
    print(grant.fence, flush=True)
    sys.stdin.readline()  # it does not look at grant.lost: many programs do not
    print(refused(lambda: orders.update(shop, 42, {"state": "cancelled"}, grant)), flush=True)
    shop.commit()
    print(refused(lambda: register.set("cancelled", grant)), flush=True)
    try:
        grant.release()
    except LockLost:
        print("LockLost", flush=True)
"""


def test_zombie_holder_is_refused(lw: Lockwork, url: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db", timeout=30)) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, fence BIGINT)")
        shop.execute("INSERT INTO orders (id, state) VALUES (42, 'new')")
        shop.commit()
        register = lw.fenced("order:42")

        with script(ZOMBIE, tmp_path / "shop.db", url=url) as zombie:
            fence = int(zombie.line())
            assert register.get() == ("packing", fence)
            zombie.send(signal.SIGSTOP)

            with lw.lock("order:42", wait=30) as grant:  # granted when the zombie's lease has ended
                assert grant.fence > fence
                ORDERS.update(shop, 42, {"state": "shipped"}, grant)
                shop.commit()
                register.set("shipped", grant)

                zombie.send(signal.SIGCONT)
                zombie.tell("go on")
                assert int(zombie.line()) == grant.fence
                assert int(zombie.line()) == grant.fence
                assert zombie.line() == "LockLost"

                row = shop.execute("SELECT state, fence FROM orders WHERE id = 42").fetchone()
                assert row == ("shipped", grant.fence)
                assert register.get() == ("shipped", grant.fence)


def test_without_a_fence_the_zombie_would_have_won(lw: Lockwork, tmp_path: Path) -> None:
    """The same writes in the same order by a plain UPDATE; the fence exists to prevent this result."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, fence BIGINT)")
        shop.execute("INSERT INTO orders VALUES (42, 'new', 0)")
        with lw.lock("order:42") as first:
            old = first.fence
        with lw.lock("order:42") as second:
            ORDERS.update(shop, 42, {"state": "shipped"}, second)
        shop.execute("UPDATE orders SET state = 'cancelled' WHERE id = 42")
        assert shop.execute("SELECT state FROM orders").fetchone() == ("cancelled",)
        with pytest.raises(StaleFence):
            ORDERS.update(shop, 42, {"state": "cancelled"}, old)
