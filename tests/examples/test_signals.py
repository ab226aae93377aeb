"""A signal is the answer of a wait, never an exception in between."""

from __future__ import annotations

import os
import signal

import pytest

from play.failure import Interrupted
from play.signals import Signals


def test_wait_returns_readable_input() -> None:
    reading, writing = os.pipe()
    with Signals() as signals:
        assert signals.wait(0, reading) == []
        os.write(writing, b"x")
        assert signals.wait(60, reading) == [reading]
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_waits_after_a_signal_raise(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Signals() as signals:
        signal.raise_signal(number)
        for _ in range(2):
            with pytest.raises(Interrupted) as raised:
                signals.wait(60)
            assert raised.value.number == number
    assert signal.getsignal(number) is before


def test_signal_ends_a_running_wait() -> None:
    with Signals() as signals:
        previous = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Interrupted):
                signals.wait(30)
        finally:
            signal.signal(signal.SIGALRM, previous)


def test_ignored_signal_stays_ignored() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert signals.wait(0) == []
    finally:
        signal.signal(signal.SIGHUP, previous)
