"""A candidate of an election: waits for its lock, leads while it holds it, steps down, and waits again."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from lockwork.errors import LockworkError
from lockwork.lazy import asyncio
from lockwork.locks.grant import Grant
from lockwork.locks.hold import Hold
from lockwork.locks.lock import Lock
from lockwork.logs import Log
from lockwork.protocol.effects import Effect, Park, Protocol
from lockwork.protocol.locks import grants
from lockwork.runtime.driver import Action, Actions, aperform, perform
from lockwork.runtime.runtime import Runtime

T = TypeVar("T")


class CandidacyStopped(Exception):
    """The candidacy was stopped while it waited for the lock."""


class Changes:
    """Wakes threads and tasks that wait for a condition."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._tasks: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def notify(self) -> None:
        """Let all waiters check their conditions."""
        with self._condition:
            self._condition.notify_all()
            for loop, event in self._tasks:
                with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits there
                    loop.call_soon_threadsafe(event.set)

    def wait_for(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Block until the condition holds; False when it does not in time."""
        with self._condition:
            return self._condition.wait_for(condition, timeout)

    async def await_for(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Async version of `wait_for`."""
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

    def waiting(self, condition: Callable[[], bool], timeout: float | None) -> Action:
        """Wait for a condition, as one action of a control flow."""
        return Action(lambda: self.wait_for(condition, timeout), lambda: self.await_for(condition, timeout))


class Candidacy:
    """One run of an election, from its start until it is stopped."""

    def __init__(self) -> None:
        self.changes: Changes = Changes()
        self.grant: Grant | None = None
        self.stopped: bool = False
        self.over: bool = False
        self.wake: Callable[[], None] | None = None
        """Wakes it while it waits for the lock."""
        self._resigned: Grant | None = None

    def lead(self, grant: Grant | None) -> None:
        """Become the leader under this grant, or with None stop leading."""
        self.grant = grant
        self.changes.notify()

    def resign(self, grant: Grant) -> None:
        """Stop leading under this grant."""
        self._resigned = grant
        self.changes.notify()

    def must_end(self, grant: Grant) -> bool:
        """Return True if this grant no longer makes it the leader."""
        return self.stopped or self._resigned is grant or grant.lost

    def stop(self) -> None:
        """Stop the candidacy, from any thread."""
        self.stopped = True
        self.changes.notify()
        if self.wake is not None and not self.over:
            self.wake()

    def end(self) -> None:
        """Record that the candidacy has ended."""
        self.grant = None
        self.over = True
        self.changes.notify()


def stoppable(protocol: Protocol[T], candidacy: Candidacy) -> Protocol[T]:
    """Run a protocol; if the candidacy is stopped, raise CandidacyStopped in it when it waits, so that it cleans up.

    Raises CandidacyStopped.
    """
    step: Callable[[Any], Effect] = protocol.send
    value: Any = None
    while True:
        try:
            effect = step(value)
        except StopIteration as done:
            result: T = done.value
            return result
        if candidacy.stopped and isinstance(effect, Park):
            step, value = protocol.throw, CandidacyStopped()
            continue
        try:
            value, step = (yield effect), protocol.send
        except GeneratorExit:
            protocol.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the protocol cleans up, and raises it again
            step, value = protocol.throw, error


log: Log = Log("lockwork")

Callback = Callable[[Grant], object]
_PAUSE = 1.0
"""Seconds between tries after an error, so that a callback that always fails does not keep the server busy."""


class CandidateLock(Lock):
    """The lock whose holder leads."""

    def acquire_for(self, candidacy: Candidacy) -> Protocol[Hold[Grant]]:
        """Wait for the lock until the candidacy is stopped."""
        owner = self._owner()
        request = self._new_request(owner)
        candidacy.wake = lambda: self._runtime.engine.wake(request.request)
        return self._acquire_and_register(owner, request, stoppable(grants.acquire(request, None), candidacy))


class Candidate:
    """Runs candidacies, on a thread or in a task; `lock` is the election's, and the callbacks are the user's."""

    def __init__(
        self, runtime: Runtime, name: str, lock: CandidateLock, on_gain: Callback | None, on_loss: Callback | None
    ) -> None:
        self._runtime = runtime
        self._name = name
        self._lock = lock
        self._on_gain = on_gain
        self._on_loss = on_loss

    def run(self, candidacy: Candidacy) -> None:
        """Run the candidacy on this thread until it is stopped."""
        perform(self._lead_until_stopped(candidacy))

    async def arun(self, candidacy: Candidacy) -> None:
        """Async version of `run`."""
        await aperform(self._lead_until_stopped(candidacy))

    def _lead_until_stopped(self, candidacy: Candidacy) -> Actions[None]:
        try:
            while not candidacy.stopped:
                if not (yield from self._term(candidacy)):
                    yield candidacy.changes.waiting(lambda: candidacy.stopped, _PAUSE)
        except CandidacyStopped:
            pass
        finally:
            candidacy.end()

    def _term(self, candidacy: Candidacy) -> Actions[bool]:
        """Wait for the lock and lead while it is held; return False after an error.

        Raises CandidacyStopped if the candidacy is stopped while it waits.
        """
        try:
            hold = yield self._runtime.action(lambda: self._lock.acquire_for(candidacy))
        except LockworkError as error:
            log.warning("election %r continues when the server is back: %s", self._name, error)
            return False
        grant: Grant = hold.grant or hold.new_grant()
        candidacy.lead(grant)
        try:
            gained: bool = yield self._calling(self._on_gain, grant)
            if gained:
                yield candidacy.changes.waiting(lambda: candidacy.must_end(grant), None)
            return gained
        finally:  # also when a callback exits this thread
            yield from self._step_down(candidacy, grant)

    def _step_down(self, candidacy: Candidacy, grant: Grant) -> Actions[None]:
        try:  # called before the lock is free, so that the next leader's on_gain comes later
            yield self._calling(self._on_loss, grant)
        finally:
            try:
                yield Action(grant.release, grant.arelease)
            except LockworkError as error:
                log.info("election %r: the leadership ended with its lease: %s", self._name, error)
            candidacy.lead(None)

    def _calling(self, called: Callback | None, grant: Grant) -> Action:
        """Call the user's function; the result is False if it raises."""
        return Action(lambda: self._call(called, grant), lambda: self._acall(called, grant))

    def _call(self, called: Callback | None, grant: Grant) -> bool:
        try:
            if called is not None:
                called(grant)
        except Exception:
            log.exception("a callback of election %r failed", self._name)
            return False
        return True

    async def _acall(self, called: Callback | None, grant: Grant) -> bool:
        try:
            result = None if called is None else called(grant)
            if isinstance(result, Awaitable):
                await result
        except Exception:
            log.exception("a callback of election %r failed", self._name)
            return False
        return True
