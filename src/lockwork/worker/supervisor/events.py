"""What happened to a supervisor, one after the other; a signal wakes it, whichever thread the system gave that to."""

from __future__ import annotations

import contextlib
import math
import signal
import socket
from collections import deque
from types import TracebackType
from typing import Generic, Self, TypeVar

from lockwork.runtime.clock import now

Event = TypeVar("Event")

_LONGEST = 3600.0
"""The longest timeout, in seconds, that a socket takes."""


class EventQueue(Generic[Event]):
    """A queue whose reader is the main thread; open it with `with`.

    Waiting in a lock, the main thread may not learn of a signal: Python runs handlers there, and only between two of
    its instructions. So it waits in a socket, to which the system's own handler writes (signal.set_wakeup_fd).
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._due: list[tuple[float, Event]] = []
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_writer.setblocking(False)
        self._previous = -1

    def post(self, event: Event) -> None:
        """Add an event, from any thread or signal handler."""
        self._events.append(event)
        with contextlib.suppress(OSError):  # full: it rings already; closed: nobody waits any more
            self._wake_writer.send(b"!")

    def later(self, seconds: float, event: Event) -> None:
        """Post an event after so many seconds, without a thread; only the reader may call this."""
        self._due.append((now() + seconds, event))
        self._due.sort(key=lambda due: due[0])

    def next(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event; None when there is none for `timeout` seconds."""
        until = math.inf if timeout is None else now() + timeout
        while not self._events:
            first = self._due[0][0] if self._due else math.inf
            at = now()
            if first <= at:
                return self._due.pop(0)[1]
            if until <= at:
                return None
            self._wake_reader.settimeout(min(until, first, at + _LONGEST) - at)
            with contextlib.suppress(TimeoutError):
                self._wake_reader.recv(4096)
        return self._events.popleft()

    def __enter__(self) -> Self:
        self._previous = signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._previous)
        self._wake_writer.close()
        self._wake_reader.close()
