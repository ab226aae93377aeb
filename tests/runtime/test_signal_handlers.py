"""Calls from a signal handler at any point of the same call in the same thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from locks.interrupting import interrupted_at
from lockwork import Lockwork
from lockwork.errors import BlockingCallError, ResultTimeout
from lockwork.ids import new_ids
from lockwork.runtime.clock import now
from lockwork.runtime.lock_counts import LockCounts
from lockwork.runtime.reentry import entered_once, new_lock
from lockwork.runtime.wakeups import Mailboxes

FILES = (
    "ids.py",
    "wakeups.py",
    "leader.py",
    "engine.py",
    "runtime/runtime.py",
    "drive.py",
    "sync_driver.py",
    "sync_pool.py",
    "lock_counts.py",
)
MOST = 2000


def at_every_place(call: Callable[[], object], handler: Callable[[], object]) -> list[str]:
    """Repeat a call that is interrupted at one place after the other; return these places."""
    places: list[str] = []

    def play() -> None:
        for place in range(MOST):
            with interrupted_at(place, FILES, handler) as where:
                call()
            if not where:
                return
            places.extend(where)

    # in a thread, because the call may hang
    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), f"it hangs after {len(places)} places"
    return places


def test_enqueue_in_a_handler_that_interrupts_enqueue(lw: Lockwork) -> None:
    @lw.task(queue="mail")
    def send(number: int) -> None: ...

    ids: list[str] = []

    def enqueue() -> None:
        ids.append(send.enqueue(1).id)
        ids.extend(job.id for job in send.enqueue_many([(2,), (3,)]))

    enqueue()
    places = at_every_place(enqueue, enqueue)
    assert any(place.startswith("ids.py") for place in places)
    assert len(set(ids)) == len(ids)
    assert lw.queue("mail").status().ready == len(ids)


def test_result_in_a_handler_that_interrupts_result(lw: Lockwork) -> None:
    @lw.task(queue="mail")
    def send(number: int) -> None: ...

    one, other = send.enqueue(1), send.enqueue(2)
    waits: list[str] = []

    def wait(job: Any) -> None:
        with pytest.raises(ResultTimeout):
            job.result(0.002)
        waits.append(job.id)

    wait(one)
    for interrupting in (one, other):
        places = at_every_place(lambda: wait(one), lambda: wait(interrupting))  # noqa: B023
        assert any(place.startswith("wakeups.py") for place in places)
    assert waits.count(one.id) > waits.count(other.id) > 10
    mail = lw.runtime.engine._mail
    assert not mail._boxes, "no mailbox is left"


def test_lock_in_a_handler_that_interrupts_a_lock(lw: Lockwork) -> None:
    def hold(name: str) -> None:
        with lw.lock(name):
            pass

    hold("a")
    assert at_every_place(lambda: hold("a"), lambda: hold("b"))


def test_handler_that_interrupts_the_first_connection_gets_an_error(url: str) -> None:
    outcomes: list[str] = []
    for place in range(MOST):
        with Lockwork(url) as app:

            @app.task(queue="mail")
            def task() -> None: ...

            def enqueue() -> None:
                try:
                    task.enqueue()
                except BlockingCallError as error:
                    assert "let the handler set a flag" in str(error)  # noqa: PT017
                    outcomes.append("refused")
                else:
                    outcomes.append("enqueued")

            with interrupted_at(place, ("runtime/runtime.py", "engine.py"), enqueue) as where:
                task.enqueue()
        if not where:
            break
    assert {*outcomes} == {"refused", "enqueued"}


def test_interrupted_counts_of_locks_add_up() -> None:
    counts = LockCounts("lw", "p")
    places = at_every_place(lambda: counts.handed("lw:{lock:a}", 0.1), lambda: counts.lost("lw:{lock:a}"))
    assert counts._amounts["lost:lock"] == len(places)


def test_ids_of_many_interrupted_calls_are_unique() -> None:
    ids: list[str] = []
    at_every_place(lambda: ids.extend(new_ids(100)), lambda: ids.extend(new_ids(100)))
    assert len(set(ids)) == len(ids)
    assert len(ids) > 2000


def test_messages_reach_waiters_that_register_meanwhile() -> None:
    """Two threads use one ticket: each message ends a wait."""
    mail, rounds = Mailboxes(), 400
    received: list[str | None] = []

    def take() -> None:
        while len(received) < rounds:
            received.append(mail.wait("t", now() + 20))

    taker = threading.Thread(target=take, daemon=True)
    taker.start()
    for number in range(rounds):
        before = len(received)
        mail.deliver("t", str(number))
        while len(received) == before and taker.is_alive():
            threading.Event().wait(0)
    taker.join(30)
    assert not taker.is_alive(), f"a message was lost after {len(received)}"
    assert None not in received
    assert mail._boxes == {}
    assert mail._size == sum(len(ticket) + len(text) for ticket, text in mail._early.items())


def test_lock_that_is_entered_by_its_holder_raises() -> None:
    lock = new_lock()
    with entered_once(lock), pytest.raises(BlockingCallError):
        entered_once(lock)
    with entered_once(lock):
        pass
