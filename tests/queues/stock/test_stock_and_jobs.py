"""A reservation and its job are atomic, and they share their ID."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork import ConfigError, LimitReached, Lockwork, ReservationEnded, SoldOut
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from lockwork.protocol.stock import stock
from lockwork.protocol.stock.stock import StockRules
from lockwork.tasks.task import Task
from processes import until


@pytest.fixture
def place(lw: Lockwork) -> Iterator[Task[[str], None, None]]:
    @lw.task(queue="orders")
    def place_order(buyer: str) -> None: ...

    return place_order  # type: ignore[return-value]


def enqueued(lw: Lockwork) -> int:
    status = lw.queue("orders").status()
    assert status.enqueued == status.ready + status.scheduled
    return status.enqueued


def test_job_has_the_id_of_its_reservation(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5, queue="orders")
    held = phones.reserve("bob", enqueue=place.call("bob"))
    job = lw.job(held.id, queue="orders")
    assert (job.state(), job.inspect().stock, job.inspect().args) == ("ready", "phone", ("bob",))
    (row,) = lw.jobs("orders").jobs
    assert row.stock == "phone"
    later = phones.reserve("eve", enqueue=place.options(delay="1h").call("eve"))
    assert lw.job(later.id, queue="orders").state() == "scheduled"
    assert enqueued(lw) == 2


def test_sold_out_or_over_the_limit_enqueues_no_job(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 2, limit=1, queue="orders")
    phones.reserve("bob", enqueue=place.call("bob"))
    with pytest.raises(LimitReached):
        phones.reserve("bob", enqueue=place.call("bob"))
    phones.reserve("eve", enqueue=place.call("eve"))
    with pytest.raises(SoldOut):
        phones.reserve("joe", enqueue=place.call("joe"))
    assert enqueued(lw) == 2


def test_repeated_key_enqueues_no_second_job(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5, queue="orders")
    first = phones.reserve("bob", key="bob", enqueue=place.call("bob"))
    again = phones.reserve("bob", key="bob", enqueue=place.call("bob"))
    assert (again.id, again.created) == (first.id, False)
    assert enqueued(lw) == 1


def test_end_of_a_reservation_enqueues_once(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5, queue="orders")
    sale, gone = phones.reserve("bob"), phones.reserve("eve")
    for _ in range(3):
        phones.confirm(sale, enqueue=place.call("bob"))
    phones.release(gone, enqueue=place.call("eve"))
    assert enqueued(lw) == 2
    phones.refund(sale, enqueue=place.call("bob"))
    assert enqueued(lw) == 3
    for over in (phones.release, phones.refund):
        for one in (sale, gone):
            over(one)
            with pytest.raises(ReservationEnded, match="nothing was enqueued"):
                over(one, enqueue=place.call("eve"))
    assert enqueued(lw) == 3


def test_ended_reservation_enqueues_no_job(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5, queue="orders")
    sale, short = phones.reserve("bob"), phones.reserve("eve", hold="20ms")
    phones.confirm(sale)
    until(lambda: phones.get(short.id) is None, "it ran out")
    with pytest.raises(ReservationEnded):
        phones.release(sale, enqueue=place.call("bob"))
    with pytest.raises(ReservationEnded):
        phones.confirm(short, enqueue=place.call("eve"))
    with pytest.raises(ReservationEnded, match="nothing was enqueued"):
        phones.release(short, enqueue=place.call("eve"))
    phones.release(short)
    assert enqueued(lw) == 0


@pytest.mark.parametrize("verb", ["confirm", "release", "refund"])
def test_resent_end_enqueues_no_second_job(lw: Lockwork, verb: str) -> None:
    """The first reply was lost, and the job has already run."""
    phones, queue = lw.stock("phone", 5, queue="orders"), QueueKeys("lw", "orders")
    held = phones.reserve("bob")
    if verb == "refund":
        phones.confirm(held)
    job = NewJob("j1", b'1,4,,;["work",[1]]')

    def end() -> None:
        lw.runtime.run(getattr(stock, verb)(StockRules(queue, "phone", 5, 0), held.id, job))

    end()
    end()
    lw.runtime.run(leases.beat(queue, {"host/1/a": True}, 600_000, 1.0))
    (leased,) = lw.runtime.run(leases.reserve(queue, "host/1/a", 9, "r1", "")).jobs
    lw.runtime.run(leases.settle(queue, "host/1/a", [Outcome("j1", leased.token, "s", b"null")], 600_000))
    end()
    assert lw.queue("orders").status().enqueued == 1


def test_job_of_another_queue_is_refused(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5)
    with pytest.raises(ConfigError, match=r"with queue 'default' and the task's queue is 'orders'.*queue='orders'"):
        phones.reserve("bob", enqueue=place.call("bob"))
    assert phones.inspect().available == 5
    assert enqueued(lw) == 0
