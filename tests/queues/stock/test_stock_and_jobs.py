"""A reservation and its job are one step: both happen or neither, and they share their id."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork import ConfigError, LimitReached, Lockwork, ReservationEnded, SoldOut
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import leases
from lockwork.protocol.queues import stock as protocol
from lockwork.protocol.queues.enqueue import NewJob
from lockwork.protocol.queues.leases import Outcome
from lockwork.protocol.queues.stock import Books
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


def test_the_job_has_the_id_of_the_reservation(lw: Lockwork, place: Task[[str], None, None]) -> None:
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


def test_a_second_call_of_one_key_enqueues_no_job(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5, queue="orders")
    first = phones.reserve("bob", key="bob", enqueue=place.call("bob"))
    again = phones.reserve("bob", key="bob", enqueue=place.call("bob"))
    assert (again.id, again.created) == (first.id, False)
    assert enqueued(lw) == 1


def test_each_end_enqueues_once(lw: Lockwork, place: Task[[str], None, None]) -> None:
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


def test_an_ended_reservation_enqueues_no_job(lw: Lockwork, place: Task[[str], None, None]) -> None:
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
def test_an_end_that_is_sent_again_after_its_job_has_run(lw: Lockwork, verb: str) -> None:
    """Its first reply was lost. The job is its own, so it did its step: nothing has gone wrong."""
    phones, queue = lw.stock("phone", 5, queue="orders"), QueueKeys("lw", "orders")
    held = phones.reserve("bob")
    if verb == "refund":
        phones.confirm(held)
    job = NewJob("j1", b'1,4,,;["work",[1]]')

    def end() -> None:
        lw.runtime.run(getattr(protocol, verb)(Books(queue, "phone", 5, 0), held.id, job))

    end()
    end()
    lw.runtime.run(leases.beat(queue, {"host/1/a": True}, 600_000, 1.0))
    (leased,) = lw.runtime.run(leases.reserve(queue, "host/1/a", 9, "r1", "")).jobs
    lw.runtime.run(leases.settle(queue, "host/1/a", [Outcome("j1", leased.token, "s", b"null")], 600_000))
    end()
    assert lw.queue("orders").status().enqueued == 1


def test_a_task_of_another_queue_cannot_be_part_of_the_step(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5)
    with pytest.raises(ConfigError, match=r"with queue 'default' and the task's queue is 'orders'.*queue='orders'"):
        phones.reserve("bob", enqueue=place.call("bob"))
    assert phones.inspect().available == 5
    assert enqueued(lw) == 0
