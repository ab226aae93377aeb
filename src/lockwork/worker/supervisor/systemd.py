"""Reports the worker's state to a service manager (systemd) over its notification socket."""

from __future__ import annotations

import contextlib
import os
import socket

from lockwork.logs import Log
from lockwork.runtime.clock import now

log: Log = Log("lockwork.worker")

_ONCE = {"READY", "STOPPING"}
"""Facts that are sent only once."""
_PATIENCE = 2.0
"""Seconds to wait for a busy service manager with these."""


class SystemdNotifier:
    """Sends notifications; does nothing without a service manager."""

    def __init__(self) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        self.interval: float | None = self._watchdog() if self._address else None
        """Seconds between signs of life, half of what the service manager asks for."""
        self._next_sign = now()

    @property
    def until_sign(self) -> float | None:
        """Seconds until the next watchdog notification; None if the service manager wants none."""
        return None if self.interval is None else self._next_sign - now()

    def sign(self) -> None:
        """Give a sign of life if one is due."""
        if self.interval is not None and now() >= self._next_sign:
            self._next_sign = now() + self.interval
            self.notify(WATCHDOG=1)

    def notify(self, **facts: object) -> None:
        """Send facts such as READY=1."""
        if not self._address:
            return
        # a name in the abstract space begins with a zero byte
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        text = "\n".join(f"{name}={value}" for name, value in facts.items())
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_PATIENCE if _ONCE & facts.keys() else 0)
            sender.connect(address)  # an unconnected socket is reported as writable even if the receiver is full
            sender.send(text.encode())

    @staticmethod
    def _watchdog() -> float | None:
        wanted = os.environ.get("WATCHDOG_USEC", "")
        for_whom = os.environ.get("WATCHDOG_PID", "") or str(os.getpid())
        if not wanted or for_whom != str(os.getpid()):
            return None
        if not wanted.isdecimal() or int(wanted) == 0:
            log.warning("WATCHDOG_USEC is %r, not a number of microseconds: no watchdog notifications are sent", wanted)
            return None
        return int(wanted) / 2_000_000
