"""Notifications to a service manager such as systemd."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork.worker.supervisor import systemd
from lockwork.worker.supervisor.systemd import SystemdNotifier
from processes import PATIENCE, stopped, until, worker
from service_managers import Manager


def test_manager_is_notified_of_start_progress_and_stop(
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


def test_frozen_supervisor_sends_no_watchdog_notification(
    own_url: str, apps: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that the test above detects a frozen supervisor."""
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


@pytest.mark.parametrize("notification", ["READY", "STOPPING"])
def test_single_notification_waits_for_busy_manager(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch, notification: str
) -> None:
    """The notification is sent only once, and without READY=1 the manager stops the worker."""
    monkeypatch.setattr(systemd, "_PATIENCE", PATIENCE)
    manager.fill(str(tmp_path / "notify"))
    saying = threading.Thread(target=SystemdNotifier().notify, kwargs={notification: 1})
    saying.start()
    saying.join(0.2)  # the socket buffer is full
    until(lambda: f"{notification}=1" in manager.heard(), "it is received")
    saying.join()


def test_unresponsive_manager_does_not_block_the_worker(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.fill(str(tmp_path / "notify"))
    monkeypatch.setattr(systemd, "_PATIENCE", 0.01)
    SystemdNotifier().notify(READY=1)
    monkeypatch.setattr(systemd, "_PATIENCE", 600.0)
    SystemdNotifier().notify(WATCHDOG=1)
    assert set(manager.heard()) == {"OTHER=1"}


def test_abstract_socket_address_is_supported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = f"lockwork-{tmp_path.name}"
    made = Manager(f"\0{name}")
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    notifier = SystemdNotifier()
    notifier.notify(READY=1, STATUS="well")
    assert made.heard() == ["READY=1", "STATUS=well"]
    assert notifier.interval is None
    made.close()
    notifier.notify(READY=1)  # the manager's socket is closed


@pytest.mark.parametrize(
    ("usec", "pid", "interval"), [("3000000", "", 1.5), ("3000000", "1", None), ("soon", "", None), ("0", "", None)]
)
def test_watchdog_interval_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, usec: str, pid: str, interval: float | None
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere")
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid)
    assert SystemdNotifier().interval == interval


SERVICE = "/system.slice/shop.service"


def _answer(folder: Path, text: str) -> None:
    """Put a systemctl into `folder` that records its arguments, and prints `text`."""
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\nprintf "%s\\n" "{text}"\n')
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("answer", "cgroup", "warned"),
    [
        ("10s", f"0::{SERVICE}", "systemd kills shop.service after 10 s: set TimeoutStopSec=40"),
        ("30s", f"0::{SERVICE}", "kills shop.service after 30 s"),
        ("1min 30s", f"0::{SERVICE}", ""),
        ("500ms", f"1:name=systemd:{SERVICE}", "after 0.5 s"),
        ("1.5s", f"0::{SERVICE}/delegated", "after 1.5 s"),
        ("infinity", f"0::{SERVICE}", ""),
        ("", f"0::{SERVICE}", ""),
        ("no such thing 5s", f"0::{SERVICE}", ""),
        ("10s", "0::/", ""),
        ("10s", "0::/user.slice/user-1000.slice/session-3.scope", ""),
        ("10s", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/shell.scope", ""),
        ("10s", "", ""),
    ],
)
def test_warns_when_systemd_kills_before_the_grace_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    answer: str, cgroup: str, warned: str,
) -> None:  # fmt: skip
    cgroups = tmp_path / "cgroup"
    cgroups.write_text(f"9:pids:/other\n{cgroup}\n")
    _answer(tmp_path, answer)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("INVOCATION_ID", "1")
    systemd.warn_of_stop_timeout(30.0, cgroups)
    assert (warned in caplog.text) if warned else not caplog.text


def test_user_unit_is_read_from_the_user_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cgroups = tmp_path / "cgroup"
    cgroups.write_text("0::/user.slice/user-1000.slice/user@1000.service/app.slice/shop.service\n")
    _answer(tmp_path, "10s")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("INVOCATION_ID", "1")
    systemd.warn_of_stop_timeout(30.0, cgroups)
    assert (tmp_path / "asked").read_text() == "--user show --property=TimeoutStopUSec --value -- shop.service\n"


def test_systemctl_is_not_called_outside_of_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cgroups = tmp_path / "cgroup"
    cgroups.write_text(f"0::{SERVICE}\n")
    _answer(tmp_path, "1s")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("INVOCATION_ID", raising=False)
    systemd.warn_of_stop_timeout(30.0, cgroups)
    monkeypatch.setenv("INVOCATION_ID", "1")
    systemd.warn_of_stop_timeout(30.0, tmp_path / "missing")
    assert not (tmp_path / "asked").exists()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    systemd.warn_of_stop_timeout(30.0, cgroups)
    assert not caplog.text
