"""Jobs that a stock enqueues accept the usual options: delay, time, priority, key, group and tags."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis

from lockwork import ConfigError, Lockwork
from processes import until, worker

APP = """
from pathlib import Path
from lockwork import Lockwork, current_job

lw = Lockwork()

@lw.task(queue="orders", key="buyer:{buyer}", group="shop:{shop}", group_concurrency=1, tags=["order"])
def place(path: str, buyer: str, shop: str, step: str) -> list[str]:
    with Path(path).open("a") as file:
        file.write(step + "\\n")
    return list(current_job().tags)

@lw.task(queue="orders")
def plain(path: str, step: str) -> None:
    with Path(path).open("a") as file:
        file.write(step + "\\n")
"""


def test_job_of_a_stock_accepts_delay_and_time(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.task(queue="orders")
    def place(buyer: str) -> None: ...

    phones = lw.stock("phone", 5, queue="orders")
    moment = datetime.now(UTC) + timedelta(hours=2)
    held = phones.reserve("bob", enqueue=place.options(at=moment).call("bob"))
    sold = phones.reserve("eve", enqueue=place.options(delay="1h").call("eve"))
    at = admin.zscore("lw:{q:orders}:due", held.id)
    assert at == int(moment.timestamp() * 1000)
    assert lw.job(sold.id, "orders").state() == "scheduled"
    past = phones.reserve("joe", enqueue=place.options(at=datetime.now(UTC) - timedelta(hours=2)).call("joe"))
    status = lw.queue("orders").status()
    assert (status.ready, status.scheduled) == (1, 2)
    assert admin.zrange("lw:{q:orders}:due", 0, 0) == [past.id.encode()]


def test_job_of_a_stock_accepts_priority_and_tags(lw: Lockwork) -> None:
    @lw.task(queue="orders")
    def place(buyer: str) -> None: ...

    phones = lw.stock("phone", 5, queue="orders")
    levels = {}
    for level in ("low", "normal", "high"):
        call = place.options(priority=level, tags=[level]).call(level)
        levels[level] = phones.reserve(level, enqueue=call).id
    assert [job.id for job in lw.queue("orders").peek()] == [levels["high"], levels["normal"], levels["low"]]
    looked = lw.job(levels["low"], "orders").inspect()
    assert looked.tags == ("low",)


def test_jobs_with_key_and_group_enter_by_the_due_set_and_run_in_order(url: str, lw: Lockwork, tmp_path: Path) -> None:
    (tmp_path / "stocked.py").write_text(APP)
    path = tmp_path / "history"

    @lw.task(queue="orders", key="buyer:{buyer}", group="shop:{shop}", group_concurrency=1, tags=["order"])
    def place(path: str, buyer: str, shop: str, step: str) -> list[str]: ...  # type: ignore[empty-body]

    @lw.task(queue="orders")
    def plain(path: str, step: str) -> None: ...

    phones = lw.stock("phone", 5, queue="orders")
    held = phones.reserve("bob", enqueue=place.call(str(path), "bob", "a", "reserved"))
    phones.confirm(held, enqueue=place.call(str(path), "bob", "a", "paid"))
    phones.refund(held, enqueue=place.call(str(path), "bob", "a", "refunded"))
    phones.release(phones.reserve("eve"), enqueue=plain.call(str(path), "released"))
    assert lw.queue("orders").status().enqueued == 4
    with worker("stocked:lw", "--burst", url=url, folder=tmp_path) as process:
        assert process.wait() == 0, process.errors
    steps = path.read_text().split()
    assert sorted(steps) == ["paid", "refunded", "released", "reserved"]
    assert [step for step in steps if step != "released"] == ["reserved", "paid", "refunded"]
    assert lw.job(held.id, "orders").result(5) == ["order"]


def test_job_of_a_stock_waits_for_an_earlier_job_of_its_key(lw: Lockwork) -> None:
    @lw.task(queue="orders", key="buyer:{buyer}")
    def place(buyer: str) -> None: ...

    first = place.enqueue("bob")
    held = lw.stock("phone", 5, queue="orders").reserve("bob", enqueue=place.call("bob"))
    status = lw.queue("orders").status()
    assert status.ready + status.scheduled == 2
    assert until(lambda: lw.job(held.id, "orders").state() in ("ready", "scheduled"), "it is there")
    assert first.cancel()
    assert lw.job(held.id, "orders").cancel()


def test_units_granted_after_waiting_enqueue_their_job(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    @lw.task(queue="orders", group="shop:{shop}")
    def place(shop: str) -> None: ...

    phones = lw.stock("phone", 1, queue="orders")
    held = phones.reserve("bob")
    with ThreadPoolExecutor(1) as pool:
        call = place.options(delay="1h", tags=["late"]).call("a")
        waiting = pool.submit(lambda: other.stock("phone", 1, queue="orders").reserve("eve", enqueue=call, wait=30))
        until(lambda: admin.hget("lw:{q:orders}:stock:phone", "t"), "a buyer waits")
        phones.release(held)
        got = waiting.result(30)
    assert lw.job(got.id, "orders").inspect().tags == ("late",)
    assert lw.job(got.id, "orders").state() == "scheduled"


def test_job_with_expires_is_refused_before_units_are_reserved(lw: Lockwork) -> None:
    @lw.task(queue="orders", expires="1h")
    def place(buyer: str) -> None: ...

    phones = lw.stock("phone", 5, queue="orders")
    with pytest.raises(ConfigError, match="cannot expire"):
        phones.reserve("bob", enqueue=place.call("bob"))
    assert phones.inspect().available == 5
    phones.reserve("bob", enqueue=place.options(expires=None).call("bob"))
    assert lw.queue("orders").status().ready == 1
