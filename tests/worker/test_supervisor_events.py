"""The supervisor's event queue: timed events need no thread, and delay no other events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NoReturn

import pytest

from lockwork.worker.supervisor.events import EventQueue


@pytest.fixture
def events() -> Iterator[EventQueue[str]]:
    with EventQueue[str]() as made:
        yield made


def test_due_events_come_in_order(events: EventQueue[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that refuses processes also refuses threads, so the retry must not need one."""

    def no_thread(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    events.later(0.03, "second")
    events.later(600, "never")
    events.later(0.01, "first")
    assert [events.next(), events.next()] == ["first", "second"]
    assert events.next(0.01) is None


def test_events_arrive_while_a_timed_event_waits(events: EventQueue[str]) -> None:
    events.later(600, "never")
    telling = threading.Thread(target=events.post, args=("now",))
    telling.start()
    assert events.next() == "now"
    telling.join()


def test_wakeup_without_event_wakes_no_worker(events: EventQueue[str]) -> None:
    events.post("one")
    events.post("two")
    assert [events.next(), events.next()] == ["one", "two"]
    # both wake-ups are still unread
    assert events.next(0.01) is None
    events.later(0.0, "due")
    assert events.next(0.0) == "due"
