"""What a service manager such as systemd is told."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork.worker.supervisor import systemd
from lockwork.worker.supervisor.systemd import SystemdNotifier
from processes import PATIENCE, stopped, until, worker


class Manager:
    """A notification socket, and what has come there."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)
        self._heard: list[str] = []

    def heard(self) -> list[str]:
        while True:
            try:
                self._heard += self._socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return self._heard

    def fill(self, address: str) -> None:
        """Let it have as much to read as the system keeps for it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, contextlib.suppress(BlockingIOError):
            other.setblocking(False)
            while True:
                other.sendto(b"OTHER=1", address)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    address = str(tmp_path / "notify")
    made = Manager(address)
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    yield made
    made.close()


def test_ready_alive_and_stopping(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path, manager: Manager,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    gate = tmp_path / "gate"
    with worker("shift:lw", "-p", "2", url=own_url, folder=apps) as process:
        until(lambda: "READY=1" in manager.heard(), "it is ready")
        assert len(process.children()) == 2
        assert "STATUS=2 processes on a, b, default" in manager.heard()
        assert "STOPPING=1" not in manager.heard()
        until(lambda: manager.heard().count("WATCHDOG=1") >= 3, "it gives signs of life")
        assert shift.environment.enqueue("NOTIFY_SOCKET").result(30) is None
        shift.gated.enqueue(history.path, str(gate))
        history.wait(1)
        process.send(signal.SIGTERM)
        until(lambda: "STOPPING=1" in manager.heard(), "it stops")
        signs = manager.heard().count("WATCHDOG=1")
        until(lambda: manager.heard().count("WATCHDOG=1") > signs, "it gives signs of life while jobs end")
        gate.touch()
        assert process.wait() == 0
    assert manager.heard().count("READY=1") == 1


def test_a_frozen_supervisor_gives_no_sign_of_life(
    own_url: str, apps: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant of the test above: who is stopped must not be taken as alive."""
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    with worker("shift:lw", url=own_url, folder=apps) as process:
        until(lambda: manager.heard().count("WATCHDOG=1") >= 2, "it gives signs of life")
        process.send(signal.SIGSTOP)
        until(lambda: stopped(process.pid), "it is frozen")
        signs = manager.heard().count("WATCHDOG=1")
        with pytest.raises(AssertionError):
            until(lambda: manager.heard().count("WATCHDOG=1") > signs, "a sign", 1)
        process.send(signal.SIGCONT)
        until(lambda: manager.heard().count("WATCHDOG=1") > signs, "it gives signs of life again")


@pytest.mark.parametrize("said", ["READY", "STOPPING"])
def test_a_single_notification_waits_for_a_busy_manager(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """Nobody would say it again, and without READY=1 the manager ends the worker."""
    monkeypatch.setattr(systemd, "_PATIENCE", PATIENCE)
    manager.fill(str(tmp_path / "notify"))
    saying = threading.Thread(target=SystemdNotifier().notify, kwargs={said: 1})
    saying.start()
    saying.join(0.2)  # so that it finds no room
    until(lambda: f"{said}=1" in manager.heard(), "it is heard")
    saying.join()


def test_an_unresponsive_manager_does_not_block_the_worker(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.fill(str(tmp_path / "notify"))
    monkeypatch.setattr(systemd, "_PATIENCE", 0.01)
    SystemdNotifier().notify(READY=1)
    monkeypatch.setattr(systemd, "_PATIENCE", 600.0)
    SystemdNotifier().notify(WATCHDOG=1)
    assert set(manager.heard()) == {"OTHER=1"}


def test_an_abstract_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = f"lockwork-{tmp_path.name}"
    made = Manager(f"\0{name}")
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    notifier = SystemdNotifier()
    notifier.notify(READY=1, STATUS="well")
    assert made.heard() == ["READY=1", "STATUS=well"]
    assert notifier.interval is None
    made.close()
    notifier.notify(READY=1)  # nobody is there any more


@pytest.mark.parametrize(
    ("usec", "pid", "interval"), [("3000000", "", 1.5), ("3000000", "1", None), ("soon", "", None), ("0", "", None)]
)
def test_signs_of_life_are_wanted_or_not(
    monkeypatch: pytest.MonkeyPatch, usec: str, pid: str, interval: float | None
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere")
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid)
    assert SystemdNotifier().interval == interval
