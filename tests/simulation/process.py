"""A simulated process and its tasks: what can be killed, paused and cancelled."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from lockwork.protocol.effects import Effect
from lockwork.protocol.locks.leases import LeaseBook
from lockwork.runtime.wakeups import Mailboxes
from simulation.faults import SECOND

NEVER = -3600 * SECOND
"""A true time before every run."""


class Sleep:
    """An actor's own effect: let `seconds` pass."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Cancelled(BaseException):
    """What is thrown into a task that is cancelled or interrupted."""


Actor = Generator[Effect | Sleep, Any, None]


class Link:
    """A connection on which a call is under way; once the server has ended it, nothing arrives from there any more."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        self.ended = False


class Process:
    """One process of users or workers; its clock shows the true time, from a beginning of its own."""

    def __init__(self, name: str, offset: float) -> None:
        self.name: str = name
        self.channel: str = f"sim:wake:{name}"
        self.alive: bool = True
        self.paused_until: int = NEVER
        """True time (us) until which nothing runs in here."""
        self.mail: Mailboxes = Mailboxes()
        self.book: LeaseBook = LeaseBook()
        self.sent_until: int = 0
        """When its newest call reaches the server: calls of one process overtake each other only by faults."""
        self.listens: bool = True
        """Whether the server has it for a listener of its channel."""
        self.unheard: int = NEVER
        """True time at which a wake-up was last lost, or at which the last late one comes."""
        self.abandoned: dict[Link, None] = {}
        """Connections that were given up with a call under way; each later call ends them first."""
        self.may_kill: bool = True
        """Whether its user may end connections."""
        self._offset = offset

    def clock(self, true: int) -> float:
        """Return the time on this process's clock, in seconds."""
        return self._offset + true / SECOND


class Task:
    """One thread or task: an actor, and what it waits for."""

    def __init__(self, process: Process, name: str, actor: Actor, *, background: bool = False) -> None:
        self.background: bool = background
        """It runs for as long as its process does, and no run waits for its end."""
        self.process: Process = process
        self.name: str = f"{process.name}/{name}"
        self.actor: Actor = actor
        self.epoch: int = 0
        """Counts what the task waited for, so that what comes too late for it is known as such."""
        self.done: bool = False
        self.calling: bool = False
        self.link: Link | None = None
        """Where its present call is still under way, although the connection is broken."""
        self.disturbed: int = NEVER
        """True time of the last trouble that this task had with a call."""

    @property
    def live(self) -> bool:
        """Whether it still runs."""
        return self.process.alive and not self.done

    def undisturbed_since(self, true: int) -> bool:
        """Whether it ran without trouble from `true` on."""
        return self.live and self.disturbed < true and self.process.paused_until < true
