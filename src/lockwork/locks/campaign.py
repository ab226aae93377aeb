"""What an election's background thread or task shares with those that look at it, wait for it and stop it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from lockwork.locks.grant import Grant
from lockwork.protocol.effects import Effect, Park, Protocol

T = TypeVar("T")


class Stopped(Exception):
    """The campaign was stopped while it stood in line."""


class Changes:
    """Wakes threads and tasks that wait for a condition."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._tasks: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def notify(self) -> None:
        """Let everybody look again."""
        with self._condition:
            self._condition.notify_all()
            for loop, event in self._tasks:
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there
                    loop.call_soon_threadsafe(event.set)

    def wait_for(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Block until the condition holds; False when it does not in time."""
        with self._condition:
            return self._condition.wait_for(condition, timeout)

    async def await_for(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """The same for a task."""
        place = asyncio.get_running_loop(), asyncio.Event()
        with self._condition:
            self._tasks.add(place)
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    await place[1].wait()
                    place[1].clear()
        except TimeoutError:
            return condition()
        finally:
            with self._condition:
                self._tasks.discard(place)
        return True


class Campaign:
    """One run of an election, from its start until it is stopped."""

    def __init__(self) -> None:
        self.changes: Changes = Changes()
        self.grant: Grant | None = None
        self.stopped: bool = False
        self.over: bool = False
        self.wake: Callable[[], None] | None = None
        """Makes it look up while it stands in line."""
        self._resigned: Grant | None = None

    def lead(self, grant: Grant | None) -> None:
        """It leads from now on, or does not any more."""
        self.grant = grant
        self.changes.notify()

    def resign(self, grant: Grant) -> None:
        """This grant shall be, or is, over."""
        self._resigned = grant
        self.changes.notify()

    def must_end(self, grant: Grant) -> bool:
        """Whether to lead under this grant no longer."""
        return self.stopped or self._resigned is grant or grant.lost

    def stop(self) -> None:
        """End it."""
        self.stopped = True
        self.changes.notify()
        if self.wake is not None and not self.over:
            self.wake()

    def end(self) -> None:
        """It has ended."""
        self.grant = None
        self.over = True
        self.changes.notify()


def stoppable(protocol: Protocol[T], campaign: Campaign) -> Protocol[T]:
    """Run a protocol, and interrupt it when the campaign is stopped: it undoes what it began. Raises Stopped."""
    step: Callable[[Any], Effect] = protocol.send
    value: Any = None
    while True:
        try:
            effect = step(value)
        except StopIteration as done:
            result: T = done.value
            return result
        if campaign.stopped and isinstance(effect, Park):
            step, value = protocol.throw, Stopped()
            continue
        try:
            value, step = (yield effect), protocol.send
        except GeneratorExit:
            protocol.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the protocol cleans up, and raises it again
            step, value = protocol.throw, error
