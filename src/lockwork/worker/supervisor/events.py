"""The queue of a supervisor's events, which signals wake."""

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
"""Longest timeout that a socket accepts, in seconds."""


class EventQueue(Generic[Event]):
    """A queue that the main thread reads; open it with `with`.

    Python runs signal handlers in the main thread, between two instructions. It may not run them while that thread
    waits for a lock. Therefore the reader waits for a socket, and the C-level handler writes to it
    (signal.set_wakeup_fd).
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
        with contextlib.suppress(OSError):  # full: a wake-up is pending; closed: the reader ended
            self._wake_writer.send(b"!")

    def later(self, seconds: float, event: Event) -> None:
        """Post an event after `seconds`, without a thread; only the reader may call this."""
        self._due.append((now() + seconds, event))
        self._due.sort(key=lambda due: due[0])

    def next(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event; returns None after `timeout` seconds."""
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
