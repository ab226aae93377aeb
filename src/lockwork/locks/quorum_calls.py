"""Performs the rounds of protocol/locks/quorum.py: calls several independent servers at the same time."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import weakref
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

from lockwork.errors import LockworkError
from lockwork.lazy import asyncio
from lockwork.owners import Owner
from lockwork.protocol.effects import Call, Clock, Protocol
from lockwork.protocol.locks.grants import Granted
from lockwork.protocol.locks.quorum import Everywhere, Node, Pause, Rounds
from lockwork.runtime.clock import now
from lockwork.runtime.drive import adrive, drive, no_running_loop
from lockwork.runtime.runtime import Runtime

T = TypeVar("T")
_THREADS = 8
"""Threads per server, so that an unresponsive server delays no call to the others."""
_living: weakref.WeakSet[QuorumCalls] = weakref.WeakSet()


class QuorumCalls:
    """Runs rounds for threads and tasks. Its threads are kept until it is closed."""

    def __init__(self, runtimes: Sequence[Runtime]) -> None:
        self.runtimes: tuple[Runtime, ...] = tuple(runtimes)
        self._reset()
        _living.add(self)

    def _reset(self) -> None:
        self.holds: dict[tuple[str, Owner], Any] = {}
        """Holds of this process, by key and owner."""
        self._pools: list[ThreadPoolExecutor] | None = None
        self._opening = threading.Lock()
        self._late: set[asyncio.Task[Any]] = set()

    @property
    def process(self) -> str:
        """The name of this process in its locks on the first server; it has another name on each server."""
        return self.runtimes[0].process

    @property
    def active(self) -> bool:
        """True if engines may renew leases."""
        return all(runtime.active for runtime in self.runtimes)

    def run(self, rounds: Rounds[T]) -> T:
        """Run rounds on this thread."""
        no_running_loop()
        return drive(rounds, self._perform)

    def arun(self, rounds: Rounds[T]) -> Coroutine[Any, Any, T]:
        """Run rounds in this task; when it is cancelled, their clean-up is done first."""
        return adrive(rounds, self._aperform)

    def close(self) -> None:
        """End the threads."""
        with self._opening:
            pools, self._pools = self._pools, None
        for pool in pools or ():
            pool.shutdown(cancel_futures=True)

    def after_fork(self) -> None:
        """In a child: forget the parent's grants and threads."""
        for hold in list(self.holds.values()):
            hold.lease = None  # the lease is the parent's
        self._inherited = self._pools, self._late  # not ended: their threads and loops are the parent's
        self._reset()

    # -- threads ------------------------------------------------------------------------------------------------------

    def _perform(self, effect: Everywhere | Pause | Clock) -> Any:
        if isinstance(effect, Clock):
            return now()
        if isinstance(effect, Pause):
            time.sleep(_some(effect))
            return None
        gate = _Gate()
        pools = self._threads()
        try:
            futures = [
                pools[node].submit(self._vote, gate, node, protocol, effect.undo.get(node))
                for node, protocol in effect.protocols.items()
            ]
            wait(futures, timeout=effect.patience)
        finally:
            answers = gate.close()
        for future in futures:
            future.cancel()
        return {node: answers.get(node) for node in effect.protocols}

    def _vote(self, gate: _Gate, node: Node, protocol: Protocol[Any], undo: Call | None) -> None:
        runtime = self.runtimes[node]
        try:
            answer = runtime.run(protocol)
        except LockworkError as error:
            answer = error
        if not gate.enter(node, answer) and undo is not None and isinstance(answer, Granted):
            with contextlib.suppress(LockworkError):
                runtime.run(_once(undo))

    def _threads(self) -> list[ThreadPoolExecutor]:
        with self._opening:
            if self._pools is None:
                self._pools = [ThreadPoolExecutor(_THREADS, "lockwork-quorum") for _ in self.runtimes]
            return self._pools

    # -- tasks --------------------------------------------------------------------------------------------------------

    async def _aperform(self, effect: Everywhere | Pause | Clock) -> Any:
        if isinstance(effect, Pause):
            await asyncio.sleep(_some(effect))
            return None
        assert isinstance(effect, Everywhere)
        gate = _Gate()
        tasks = [
            asyncio.create_task(self._avote(gate, node, protocol, effect.undo.get(node)))
            for node, protocol in effect.protocols.items()
        ]
        for task in tasks:
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        try:
            await asyncio.wait(tasks, timeout=effect.patience)
        finally:
            answers = gate.close()
        return {node: answers.get(node) for node in effect.protocols}

    async def _avote(self, gate: _Gate, node: Node, protocol: Protocol[Any], undo: Call | None) -> None:
        runtime = self.runtimes[node]
        try:
            answer: Any = await runtime.arun(protocol)
        except LockworkError as error:
            answer = error
        if not gate.enter(node, answer) and undo is not None and isinstance(answer, Granted):
            with contextlib.suppress(LockworkError):
                await runtime.arun(_once(undo))


def living() -> list[QuorumCalls]:
    """Return the live QuorumCalls of this process."""
    return list(_living)


class _Gate:
    """Takes the answers of one round until it is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = True
        self._answers: dict[Node, Any] = {}

    def enter(self, node: Node, answer: object) -> bool:
        """Note an answer; False when it comes too late."""
        with self._lock:
            if self._open:
                self._answers[node] = answer
            return self._open

    def close(self) -> dict[Node, Any]:
        """Accept no more answers, and return the answers that arrived in time."""
        with self._lock:
            self._open = False
            return self._answers


def _after_fork() -> None:
    for calls in list(_living):
        calls.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _some(pause: Pause) -> float:
    return random.uniform(0, max(0.0, pause.most))  # noqa: S311 - spreads load, hides nothing


def _once(call: Call) -> Protocol[Any]:
    return (yield call)
