"""Leader and followers: a thread that waits for a message reads the subscription itself.

Otherwise the engine's thread would read the message, and then wake the waiting thread. One waiting thread at a time is
the leader. It delivers the messages of the other waiters, its followers, and the engine does not read meanwhile. When
the leader stops waiting, the engine reads again, until the next thread waits.

No code here holds a lock, because a signal handler may wait for a message while it interrupts a leader. The engine and
a leader each write first, and then read the other's data, so only one of them reads the connection.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from time import sleep
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from lockwork.runtime.clock import now
from lockwork.runtime.replies import ignoring

if TYPE_CHECKING:
    from lockwork.runtime.sync_connection import Wire

_BUSY = 0.0002
"""Seconds until the next try when another reader has just begun."""


class MessageSource(Protocol):
    """The connection that a leader reads."""

    def for_leader(self) -> Wire | None:
        """Return the connection; None while no leader can read it."""
        ...

    def pause(self, *, paused: bool) -> None:
        """Make the engine ignore arriving messages, or notice them again."""
        ...

    def read_as_leader(self, wire: Wire) -> bool:
        """Process received messages; return False if the connection broke."""
        ...

    def fail(self, wire: Wire) -> None:
        """Request that the engine reopens the connection."""
        ...


class ThreadBox:
    """The wait of one thread."""

    __slots__ = ("__weakref__", "_leadership", "_lock", "leading", "reading", "text", "thread")

    def __init__(self, leadership: Leadership | None = None) -> None:
        self._leadership = leadership
        self._lock = threading.Lock()
        self._lock.acquire()
        self.text: str | None = None
        self.leading: bool = False
        self.reading: bool = False
        """True while it processes received bytes: a signal handler must not read then."""
        self.thread: int = 0

    def deliver(self, text: str) -> None:
        """Wake the thread, once."""
        if self.text is None:
            self.text = text
            try:  # noqa: SIM105 - contextlib.suppress costs more, and each hand-over comes here
                self._lock.release()
            except RuntimeError:  # another thread woke it at the same moment
                pass
            if self.leading and self._leadership is not None and threading.get_ident() != self.thread:
                self._leadership.ring()

    def wait(self, seconds: float) -> str | None:
        """Wait for the message for at most `seconds`."""
        if self._leadership is not None:
            until = now() + seconds
            self._leadership.lead(self, until)
            if self.text is not None:
                return self.text
            seconds = until - now()
        self._lock.acquire(timeout=max(0.0, seconds))
        return self.text

    def end(self) -> None:
        """End the wait: a leader whose cleanup was interrupted gives up its role."""
        if self.thread and self._leadership is not None:
            self._leadership.leave(self)


class Leadership:
    """The role of the thread that reads the subscription of a process."""

    def __init__(self, wake_engine: Callable[[], None]) -> None:
        self._wake_engine = wake_engine
        self.source: MessageSource | None = None
        self.subscribed: bool = False
        """True while the server has confirmed the subscription of this process."""
        self._leader: dict[None, ref[ThreadBox]] = {}
        self._engine_reads = False
        self._bell: tuple[socket.socket, socket.socket] | None = None
        """Wakes a leader whose message another thread delivers."""
        self._closed = False

    # -- for waiting threads ------------------------------------------------------------------------------------------

    def lead(self, box: ThreadBox, until: float) -> None:
        """Read the subscription until `box` has its message or the clock shows `until`, unless another thread does."""
        source = self.source
        wire = None if source is None else source.for_leader()
        if source is None or wire is None:
            return
        box.thread = threading.get_ident()
        nested = False
        try:
            leader = self._leader.setdefault(None, ref(box, self._abandoned))()
            # a signal handler reads for the leader that it has interrupted
            nested = leader is not box and leader is not None and leader.thread == box.thread and not leader.reading
            if leader is box or nested:
                box.leading = True
                self._read(source, wire, box, until)
        finally:
            box.leading = False
            if nested:
                self.ring()  # the interrupted leader checks its box again
            else:
                self.leave(box)
                box.thread = 0

    def leave(self, box: ThreadBox) -> None:
        """Let the engine read again if `box` is the leader's."""
        reference = self._leader.get(None)
        if reference is not None and reference() is box:
            if self.source is not None:
                self.source.pause(paused=False)
            self._leader.pop(None, None)

    def _read(self, source: MessageSource, wire: Wire, box: ThreadBox, until: float) -> None:
        bell, descriptor = self._bell, wire.fileno()
        if bell is None or descriptor < 0:
            return
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(bell[0], select.POLLIN)
        source.pause(paused=True)
        while box.text is None and not self._closed and (seconds := until - now()) > 0:
            for ready, _ in poll.poll(seconds * 1000):
                if ready != descriptor:
                    with ignoring(OSError):
                        bell[0].recv(4096)
                    if source.for_leader() is not wire:
                        return
                elif self._engine_reads:
                    sleep(_BUSY)
                elif not self._take(source, wire, box):
                    return

    def _take(self, source: MessageSource, wire: Wire, box: ThreadBox) -> bool:
        """Process received messages; return False if the connection broke."""
        box.reading = True
        complete = False
        try:
            complete = source.read_as_leader(wire)
        finally:
            if not complete:  # also after an interrupt, because received messages may be lost
                source.fail(wire)
            box.reading = False
        return complete

    def ring(self) -> None:
        """Wake the leader."""
        if self._bell is not None:
            with ignoring(OSError):  # full: the leader wakes anyway; closed: no thread waits
                self._bell[1].send(b"!")

    def _abandoned(self, _: Any) -> None:
        """Handle a leader that was interrupted in its cleanup."""
        if self._leader:
            self._wake_engine()

    # -- for the engine's thread --------------------------------------------------------------------------------------

    def read_as_engine(self, read: Callable[[], None]) -> None:
        """Call `read` unless a leader reads."""
        self._engine_reads = True
        try:
            if self.leader() is None:
                read()
        finally:
            self._engine_reads = False

    def leader(self) -> ThreadBox | None:
        """Return the leader."""
        reference = self._leader.get(None)
        return None if reference is None else reference()

    def tend(self) -> None:
        """Read again if a leader was interrupted in its cleanup."""
        reference = self._leader.get(None)
        if reference is not None and reference() is None:
            self._leader.pop(None, None)
            if self.source is not None:
                self.source.pause(paused=False)

    def revoke(self) -> None:
        """Let the engine read, because the connection is closed; a leader that reads it finds that out."""
        self._leader.clear()
        self.ring()

    def open(self, source: MessageSource) -> None:
        """Let threads read a connection."""
        if self._bell is None:
            bell = socket.socketpair()
            for end in bell:
                end.setblocking(False)
            self._bell = bell
        self.source = source

    def close(self) -> None:
        """Wake the leader, and close the bell."""
        self._closed = True
        self.ring()
        if self._bell is not None:
            for end in self._bell:
                end.close()
