"""Reports the worker's state to a service manager (systemd), and reads its stop timeout."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from pathlib import Path

from lockwork.logs import Log
from lockwork.runtime.clock import now

log: Log = Log("lockwork.worker")

_ONCE = {"READY", "STOPPING"}
"""Facts that are sent only once."""
_PATIENCE = 2.0
"""Seconds to wait for a busy service manager when sending them."""

_UNIT = re.compile(r"(?:0:|\d+:name=systemd):/(.+)", re.MULTILINE)
_SPAN = re.compile(r"([0-9.]+)(us|ms|s|min|h|d|w|month|y)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604_800, "month": 2_629_800}
_SECONDS["y"] = 31_557_600


def warn_of_stop_timeout(grace: float, cgroups: Path = Path("/proc/self/cgroup")) -> None:
    """Log a warning if systemd kills this service before `grace` seconds have passed after SIGTERM.

    Without systemd, or if it does not answer, nothing is logged.
    """
    unit = _service(cgroups) if "INVOCATION_ID" in os.environ else None
    allowed = None if unit is None else _stop_timeout(*unit)
    if unit is not None and allowed is not None and allowed <= grace:
        log.warning(
            "running jobs have %g s to end after SIGTERM, but systemd kills %s after %g s: set TimeoutStopSec=%g in "
            "its unit, or a shorter --grace",
            grace,
            unit[0],
            allowed,
            grace + 10,
        )


def _service(cgroups: Path) -> tuple[str, bool] | None:
    """Return the service of this process, and True if it is a user service; None outside a service."""
    try:
        paths = [path.split("/") for path in _UNIT.findall(cgroups.read_text())]
    except OSError:
        return None
    for path in paths:
        units = [part for part in path if part.endswith((".service", ".scope"))]
        if units and units[-1].endswith(".service"):
            return units[-1], any(part.startswith("user@") for part in units[:-1])
    return None


def _stop_timeout(unit: str, of_user: bool) -> float | None:
    """Return the unit's TimeoutStopSec in seconds; None if it has none, or systemd does not answer."""
    scope = ["--user"] if of_user else []
    command = ["systemctl", *scope, "show", "--property=TimeoutStopUSec", "--value", "--", unit]
    try:
        answer = subprocess.run(  # noqa: S603 - our own command
            command, capture_output=True, timeout=_PATIENCE, check=True, stdin=subprocess.DEVNULL, text=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    text = answer.stdout.strip()
    spans: list[tuple[str, str]] = _SPAN.findall(text)
    if not spans or _SPAN.sub("", text).strip():
        return None  # such as "infinity"
    return sum(float(number) * _SECONDS[unit] for number, unit in spans)


class SystemdNotifier:
    """Sends notifications; does nothing without a service manager."""

    def __init__(self) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        self.interval: float | None = self._watchdog() if self._address else None
        """Seconds between watchdog notifications: half of the service manager's timeout."""
        self._next_sign = now()

    @property
    def until_sign(self) -> float | None:
        """Return the seconds until the next watchdog notification; None if the service manager wants none."""
        return None if self.interval is None else self._next_sign - now()

    def sign(self) -> None:
        """Send a watchdog notification if one is due."""
        if self.interval is not None and now() >= self._next_sign:
            self._next_sign = now() + self.interval
            self.notify(WATCHDOG=1)

    def notify(self, **facts: object) -> None:
        """Send facts such as READY=1."""
        if not self._address:
            return
        # an abstract socket name begins with a zero byte
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        text = "\n".join(f"{name}={value}" for name, value in facts.items())
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_PATIENCE if _ONCE & facts.keys() else 0)
            sender.connect(address)  # an unconnected socket is reported as writable even if the receiver is full
            sender.send(text.encode())

    @staticmethod
    def _watchdog() -> float | None:
        interval_us = os.environ.get("WATCHDOG_USEC", "")
        for_whom = os.environ.get("WATCHDOG_PID", "") or str(os.getpid())
        if not interval_us or for_whom != str(os.getpid()):
            return None
        if not interval_us.isdecimal() or int(interval_us) == 0:
            log.warning(
                "WATCHDOG_USEC is %r, not a number of microseconds: no watchdog notifications are sent", interval_us
            )
            return None
        return int(interval_us) / 2_000_000
