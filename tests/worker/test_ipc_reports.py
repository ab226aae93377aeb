"""Reports of worker processes, and a supervisor that fails to handle a report."""

from __future__ import annotations

import os
import threading
from typing import NoReturn

import pytest

from lockwork.protocol.queue.leases import Outcome
from lockwork.worker.ipc.hard_timeouts import HardTimeouts
from lockwork.worker.ipc.messages import (
    HardTimeout,
    HardTimeoutEnded,
    Ready,
    Recycle,
    Reported,
    Reports,
    RunnerExited,
    RunnerStarted,
    SocketReporter,
)
from processes import until


def test_reports_continue_after_handler_error(caplog: pytest.LogCaptureFixture) -> None:
    """Worker processes would block after about ten unread reports."""
    received: list[Reported] = []

    def on_report(_session: str, message: Reported) -> None:
        received.append(message)
        if message == Recycle():
            raise RuntimeError("can't start new thread")

    reports = Reports(on_report)
    reporter = SocketReporter(os.dup(reports.descriptor), "host/1/a")
    reports.start()
    try:
        reporter.report(Recycle())
        reporter.report(Ready())
        until(lambda: received == [Recycle(), Ready()], "both are received")
    finally:
        reporter.close()
        reports.close()
    assert """could not be handled: b'["host/1/a",["Recycle"]]'""" in caplog.text


def test_flush_waits_for_reports_that_were_sent_before() -> None:
    going_on, received = threading.Event(), list[Reported]()

    def on_report(_session: str, message: Reported) -> None:
        going_on.wait()
        received.append(message)

    reports = Reports(on_report)
    reporter = SocketReporter(os.dup(reports.descriptor), "host/1/a")
    reports.start()
    flushes = [threading.Thread(target=reports.flush) for _ in range(3)]
    try:
        reporter.report(Ready())
        reporter.report(Recycle())
        for flush in flushes:
            flush.start()
        until(lambda: len(reports._flushes) == 3, "all wait")
        assert all(flush.is_alive() for flush in flushes)
        going_on.set()
        for flush in flushes:
            flush.join()
        assert received == [Ready(), Recycle()]
    finally:
        going_on.set()
        reporter.close()
        reports.close()
    reports.flush()  # returns at once


@pytest.mark.parametrize(
    "message",
    [
        Ready(),
        Recycle(),
        RunnerStarted(1),
        RunnerExited(1, "died"),
        HardTimeout("q", Outcome("a", b"1 2 x", "d", b"\xff"), 1.5, "task"),
        HardTimeoutEnded("q", "a"),
    ],
)
def test_reports_survive_encoding_and_decoding(message: Reported) -> None:
    received: list[tuple[str, Reported]] = []
    reports = Reports(lambda session, message: received.append((session, message)))
    reporter = SocketReporter(os.dup(reports.descriptor), "host/1/a")
    reports.start()
    try:
        reporter.report(message)
        until(lambda: received == [("host/1/a", message)], "it is received")
    finally:
        reporter.close()
        reports.close()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"something else",
        b"\xff",
        b"null",
        b'["host/1/a"]',
        b'["host/1/a",["Unknown"]]',
        b"[" * 16_384,
        b'["host/1/a",["RunnerExited",1,"' + b"x" * 16_384 + b'"]]',
        b'["host/1/a",["RunnerStarted"]]',
        b'["host/1/a",["RunnerStarted","x"]]',
        b'["host/1/a",["RunnerExited"]]',
        b'["host/1/a",["RunnerExited",-1,"died"]]',
        b'["host/1/a",["HardTimeout"]]',
        b'["host/1/a",["HardTimeout",{}]]',
        b'["host/1/a",["HardTimeout",1]]',
        b'["host/1/a",["HardTimeoutEnded","x"]]',
        b'["host/1/a",["HardTimeoutEnded",\x00]]',
    ],
)
def test_unreadable_report_is_logged_and_skipped(message: bytes, caplog: pytest.LogCaptureFixture) -> None:
    received: list[Reported] = []
    reports = Reports(lambda _session, message: received.append(message))
    reporter = SocketReporter(os.dup(reports.descriptor), "host/1/a")
    reports.start()
    try:
        reporter._socket.send(message)
        reporter.report(Recycle())
        until(lambda: received, "the next one is received")
    finally:
        reporter.close()
        reports.close()
    assert received == [Recycle()]
    assert "a report of a worker process could not be handled" in caplog.text


def test_hard_timeout_watch_retries_when_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    over: list[str] = []
    hard_timeouts = HardTimeouts(lambda session, _timeouts: over.append(session))
    start = threading.Thread.start

    def no_thread(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    begins = HardTimeout("q", Outcome("a", b"1 2 x", "d"), 0.01, "task")
    with pytest.raises(RuntimeError):
        hard_timeouts.receive("one", begins)
    monkeypatch.setattr(threading.Thread, "start", start)
    hard_timeouts.receive("two", begins)
    try:
        until(lambda: sorted(over) == ["one", "two"], "both are over")
    finally:
        hard_timeouts.stop()


def test_hard_timeout_watch_without_thread_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    hard_timeouts = HardTimeouts(lambda _session, _timeouts: None)

    def no_thread(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError):
        hard_timeouts.receive("one", HardTimeout("q", Outcome("a", b"1 2 x", "d"), 600, "task"))
    hard_timeouts.stop()
