"""Steps of the server's clock are distinguished from slow calls and drift."""

from __future__ import annotations

import pytest

from lockwork.protocol.server_clock import ServerClock

EPOCH = 1_800_000_000.0


@pytest.mark.parametrize("step", [20.0, 7200.0, -20.0, -7200.0])
def test_clock_step_is_noticed_once(step: float) -> None:
    clock = ServerClock()
    assert clock.heard(10.0, 10.001, EPOCH + 10) == 0.0
    assert clock.heard(15.0, 15.001, EPOCH + 15 + step) == pytest.approx(step, abs=0.02)
    assert clock.heard(20.0, 20.001, EPOCH + 20 + step) == 0.0


def test_slow_call_is_no_step() -> None:
    """The server may have read its clock at either end of the call, and a paused process sees its answer late."""
    clock = ServerClock()
    assert clock.heard(10.0, 10.001, EPOCH + 10) == 0.0
    for server in (15.0, 22.0, 29.0):
        assert clock.heard(15.0, 29.0, EPOCH + server) == 0.0


def test_step_during_a_slow_call_is_noticed() -> None:
    """The offset from earlier replies is still known."""
    clock = ServerClock()
    clock.heard(10.0, 10.001, EPOCH + 10)
    assert clock.heard(15.0, 23.0, EPOCH + 16) == 0.0
    assert clock.heard(24.0, 24.001, EPOCH + 24 + 5) == pytest.approx(5.0, abs=0.1)


def test_drifting_clock_makes_no_steps() -> None:
    """500 parts in a million is what NTP slews at most."""
    clock = ServerClock()
    for at in range(0, 100_000, 5):
        assert clock.heard(at, at + 0.001, EPOCH + at * 1.0005) == 0.0
