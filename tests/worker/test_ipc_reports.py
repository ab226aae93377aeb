"""What children report, and a supervisor that cannot deal with some of it."""

from __future__ import annotations

import os
import threading
from typing import NoReturn

import pytest

from lockwork.protocol.queues.leases import Outcome
from lockwork.worker.ipc.hard_timeouts import HardTimeout, HardTimeouts
from lockwork.worker.ipc.messages import Reporter, Reports
from processes import until


def test_a_report_that_goes_wrong_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    """If nobody read them any more, each child would stand still at its tenth report or so."""
    heard: list[str] = []

    def on_report(_session: str, text: str) -> None:
        heard.append(text)
        if text == "bad":
            raise RuntimeError("can't start new thread")

    reports = Reports(on_report)
    reporter = Reporter(os.dup(reports.descriptor), "host/1/a")
    reports.start()
    try:
        reporter.report("bad")
        reporter.report("good")
        until(lambda: heard == ["bad", "good"], "both are heard")
    finally:
        reporter.close()
        reports.close()
    assert "could not be handled: 'bad'" in caplog.text


def test_hard_time_outs_are_watched_as_soon_as_there_is_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    over: list[str] = []
    hard_timeouts = HardTimeouts(lambda session, _timeouts: over.append(session))
    start = threading.Thread.start

    def no_thread(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    begins = HardTimeout("q", Outcome("a", b"1 2 x", "d"), 0.01, "task")
    with pytest.raises(RuntimeError):
        hard_timeouts._add("one", begins)
    monkeypatch.setattr(threading.Thread, "start", start)
    hard_timeouts._add("two", begins)
    try:
        until(lambda: sorted(over) == ["one", "two"], "both are over")
    finally:
        hard_timeouts.stop()


def test_a_watch_without_a_thread_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    hard_timeouts = HardTimeouts(lambda _session, _timeouts: None)

    def no_thread(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError):
        hard_timeouts._add("one", HardTimeout("q", Outcome("a", b"1 2 x", "d"), 600, "task"))
    hard_timeouts.stop()
