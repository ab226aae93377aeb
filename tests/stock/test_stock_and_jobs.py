"""A reservation and its job are one step: both happen or neither, and they share their id."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork import ConfigError, LimitReached, Lockwork, ReservationEnded, SoldOut
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
    assert lw.job(held.id, queue="orders").state() == "active"
    later = phones.reserve("eve", enqueue=place.options(delay="1h").call("eve"))
    assert lw.job(later.id, queue="orders").state() == "scheduled"
    assert enqueued(lw) == 2


def test_sold_out_or_over_the_limit_enqueues_nothing(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 2, limit=1, queue="orders")
    phones.reserve("bob", enqueue=place.call("bob"))
    with pytest.raises(LimitReached):
        phones.reserve("bob", enqueue=place.call("bob"))
    phones.reserve("eve", enqueue=place.call("eve"))
    with pytest.raises(SoldOut):
        phones.reserve("joe", enqueue=place.call("joe"))
    assert enqueued(lw) == 2


def test_a_second_call_of_one_key_enqueues_nothing(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5, queue="orders")
    first = phones.reserve("bob", key="bob", enqueue=place.call("bob"))
    again = phones.reserve("bob", key="bob", enqueue=place.call("bob"))
    assert (again.id, again.created) == (first.id, False)
    assert enqueued(lw) == 1


def test_confirm_and_release_enqueue_once(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5, queue="orders")
    sale, gone = phones.reserve("bob"), phones.reserve("eve")
    for _ in range(3):
        phones.confirm(sale, enqueue=place.call("bob"))
        phones.release(gone, enqueue=place.call("eve"))
    assert enqueued(lw) == 2


def test_what_has_ended_enqueues_nothing(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5, queue="orders")
    sale, short = phones.reserve("bob"), phones.reserve("eve", hold="20ms")
    phones.confirm(sale)
    until(lambda: phones.get(short.id) is None, "it ran out")
    with pytest.raises(ReservationEnded):
        phones.release(sale, enqueue=place.call("bob"))
    with pytest.raises(ReservationEnded):
        phones.confirm(short, enqueue=place.call("eve"))
    phones.release(short, enqueue=place.call("eve"))
    assert enqueued(lw) == 0


def test_a_task_of_another_queue_cannot_be_part_of_the_step(lw: Lockwork, place: Task[[str], None, None]) -> None:
    phones = lw.stock("phone", 5)
    with pytest.raises(ConfigError, match=r"with queue 'default' and the task's queue is 'orders'.*queue='orders'"):
        phones.reserve("bob", enqueue=place.call("bob"))
    assert phones.status().available == 5
    assert enqueued(lw) == 0
