"""What children tell their supervisor: short texts over one socket that all of them share."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

from lockwork.logs import Log

log: Log = Log("lockwork.worker")

_LONGEST = 16_384


class Reports:
    """The supervisor's end; `on_report(session, text)` is called on a thread of its own."""

    def __init__(self, on_report: Callable[[str, str], None]) -> None:
        self._on_report = on_report
        self._inbox, self._outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._main, name="lockwork-reports", daemon=True)

    @property
    def descriptor(self) -> int:
        """What a child inherits in order to report."""
        return self._outbox.fileno()

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        if self._thread.is_alive():
            self._outbox.send(b"!")
            self._thread.join()
        self._inbox.close()
        self._outbox.close()

    def _main(self) -> None:
        while (heard := self._inbox.recv(_LONGEST)) != b"!":
            session, _, text = heard.decode(errors="replace").partition(" ")
            try:
                self._on_report(session, text)
            except Exception:
                # if nobody read any more, children would stand still as soon as the socket is full
                log.exception("what a worker process reports could not be dealt with: %r", text)


class Reporter:
    """A child's end."""

    def __init__(self, descriptor: int, session: str) -> None:
        # not for the programs that jobs start
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._session = session

    def tell(self, text: str) -> None:
        """Tell the supervisor; one that is gone needs to hear nothing."""
        try:
            self._socket.send(f"{self._session} {text}".encode())
        except OSError:
            return

    def close(self) -> None:
        """Report no more."""
        self._socket.close()
