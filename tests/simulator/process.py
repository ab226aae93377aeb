"""A simulated process and its tasks. A process can be killed and paused, a task cancelled."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from lockwork.protocol.effects import Effect
from lockwork.protocol.locks.leases import LeaseBook
from lockwork.runtime.wakeups import Mailboxes
from simulator.faults import SECOND

NEVER = -3600 * SECOND
"""A true time before every run."""


class Sleep:
    """An actor's own effect: let `seconds` pass."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Cancelled(BaseException):
    """The exception thrown into a cancelled task."""


Actor = Generator[Effect | Sleep, Any, None]


class Link:
    """A connection with a call in flight. After the server has ended the connection, the call never arrives."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        self.ended = False


class Process:
    """A process of users or workers. Its clock shows the true time plus an offset."""

    def __init__(self, name: str, offset: float) -> None:
        self.name: str = name
        self.channel: str = f"sim:wake:{name}"
        self.alive: bool = True
        self.paused_until: int = NEVER
        """The process is paused until this true time, us."""
        self.mail: Mailboxes = Mailboxes()
        self.book: LeaseBook = LeaseBook()
        self.sent_until: int = 0
        """True time when its newest call reaches the server. A process's calls overtake each other only by faults."""
        self.listens: bool = True
        """True while the server counts the process as a subscriber of its channel."""
        self.unheard: int = NEVER
        """Latest true time of a lost wake-up, of the arrival of a late one, or of the end of a broken subscription."""
        self.abandoned: dict[Link, None] = {}
        """Abandoned connections with a call in flight. Each later call first ends them."""
        self.may_kill: bool = True
        """True if its Redis user may end connections (CLIENT KILL)."""
        self._offset = offset

    def clock(self, true: int) -> float:
        """Return the time on this process's clock, in seconds."""
        return self._offset + true / SECOND


class Task:
    """A thread or asyncio task, which runs an actor."""

    def __init__(self, process: Process, name: str, actor: Actor, *, background: bool = False) -> None:
        self.background: bool = background
        """True if the task runs until its process ends; a run does not wait for its end."""
        self.process: Process = process
        self.name: str = f"{process.name}/{name}"
        self.actor: Actor = actor
        self.epoch: int = 0
        """Number of the task's present wait. A result for an earlier wait is ignored."""
        self.done: bool = False
        self.calling: bool = False
        self.link: Link | None = None
        """The broken connection that may still deliver its present call."""
        self.disturbed: int = NEVER
        """True time of the last fault of one of its calls, or of its last cancellation."""

    @property
    def live(self) -> bool:
        """True until the task or its process ends."""
        return self.process.alive and not self.done

    def undisturbed_since(self, true: int) -> bool:
        """Return True if the task runs, and had no fault or pause since this true time."""
        return self.live and self.disturbed < true and self.process.paused_until < true
