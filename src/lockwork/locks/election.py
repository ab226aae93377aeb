"""One leader among many processes: `with lw.election("scheduler", on_gain=..., on_loss=...)`.

Candidates wait for a lock; the holder of the lock leads. If the leader dies, the next waiter becomes the leader when
the lease ends. No candidate considers itself the leader after its lease has ended.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from lockwork.config import Config
from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError
from lockwork.lazy import asyncio
from lockwork.locks.candidacy import Callback, Candidacy, Candidate, CandidateLock
from lockwork.locks.grant import Grant
from lockwork.naming import literal
from lockwork.protocol import names
from lockwork.protocol.locks.grants import LockState
from lockwork.protocol.locks.overview import Holder, read
from lockwork.runtime.drive import no_running_loop
from lockwork.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class ElectionStatus:
    """The leader and its fence; `candidates` counts the waiting candidates, see `LockState.waiters`.

    `leader` is None if there is no leader. `expires_in` is the seconds that its lease lasts unless it is renewed.
    """

    leader: Holder | None
    fence: int
    expires_in: float
    candidates: int


class Election:
    """A candidate while its `with` or `async with` runs. It calls `on_gain` and `on_loss` one after the other.

    In a `with`, the election's own thread calls both. In an `async with`, its asyncio task calls both, and they may be
    coroutine functions. They should return soon: `on_loss` cannot be called while `on_gain` runs, and the lock is
    released only after `on_loss`. Errors of both are logged; an error of `on_gain` gives up the leadership, and
    `on_loss` is called, too.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        *,
        on_gain: Callback | None,
        on_loss: Callback | None,
        tags: Sequence[str],
    ) -> None:
        self.name: str = literal(name, "an election's name")
        for what, callback in (("on_gain", on_gain), ("on_loss", on_loss)):
            if callback is not None and not callable(callback):
                raise ConfigError(f"{what} is a function that takes the grant, not {callback!r}")
        self._callbacks = (on_gain, on_loss)
        self._candidacy: Candidacy | None = None
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = CandidateLock(
            runtime, config, f"election:{name}", wait=None, lease=None, on_lost=self._ended, tags=tags
        )
        self._shown = names.display(name)
        self._candidate = Candidate(runtime, self._shown, self._lock, on_gain, on_loss)

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def leader(self) -> bool:
        """True while this object is the leader; False from the end of its lease on."""
        candidacy = self._candidacy
        grant = None if candidacy is None else candidacy.grant
        return grant is not None and not grant.lost

    @property
    def fence(self) -> int | None:
        """The fence of this leadership, higher than all earlier ones; None if it is not the leader."""
        candidacy = self._candidacy
        grant = None if candidacy is None else candidacy.grant
        return grant.fence if grant is not None and not grant.lost else None

    def inspect(self) -> ElectionStatus:
        """Read the leader and the number of waiting candidates from the server."""
        return _status(self._lock.inspect())

    async def ainspect(self) -> ElectionStatus:
        """Async version of `inspect`."""
        return _status(await self._lock.ainspect())

    def wait(self, timeout: Duration | None = None) -> bool:
        """Block until this object is the leader; False after `timeout`."""
        no_running_loop()
        limit = None if timeout is None else seconds(timeout, "timeout", zero=True)
        candidacy = self._running()
        return candidacy.changes.wait_for(lambda: self.leader or candidacy.over, limit) and self.leader

    async def await_(self, timeout: Duration | None = None) -> bool:
        """Async version of `wait`."""
        limit = None if timeout is None else seconds(timeout, "timeout", zero=True)
        candidacy = self._running()
        return await candidacy.changes.await_for(lambda: self.leader or candidacy.over, limit) and self.leader

    # -- giving up ----------------------------------------------------------------------------------------------------

    def resign(self) -> bool:
        """Give up the leadership, and wait again behind the others; False if this object was not the leader."""
        no_running_loop()
        candidacy, grant = self._running(), self._resigned()
        if grant is not None and threading.current_thread() is not self._thread:
            candidacy.changes.wait_for(lambda: candidacy.grant is not grant or candidacy.over, None)
        return grant is not None

    async def aresign(self) -> bool:
        """Async version of `resign`."""
        candidacy, grant = self._running(), self._resigned()
        if grant is not None and asyncio.current_task() is not self._task:
            await candidacy.changes.await_for(lambda: candidacy.grant is not grant or candidacy.over, None)
        return grant is not None

    def stop(self) -> None:
        """Stop being a candidate; the next waiter becomes the leader. `on_loss` has been called when this returns."""
        no_running_loop()
        thread = self._thread
        if self._candidacy is not None:
            self._candidacy.stop()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
            self._thread = None

    async def astop(self) -> None:
        """Async version of `stop`."""
        task = self._task
        if self._candidacy is not None:
            self._candidacy.stop()
        if task is not None and task is not asyncio.current_task():
            await asyncio.shield(task)
            self._task = None

    def __enter__(self) -> Self:
        no_running_loop()
        for callback in self._callbacks:
            if inspect.iscoroutinefunction(callback):
                raise ConfigError(f"election {self._shown!r} has a coroutine function as callback: use `async with`")
        candidacy = self._begin()
        context = copy_context()  # as `async with` does: callbacks and the lock see the job that runs here
        self._thread = threading.Thread(
            target=context.run, args=(self._candidate.run, candidacy), name="lockwork-election", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._candidate.arun(self._begin()), name=f"election-{self._shown}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.astop()

    # -- the candidacy -------------------------------------------------------------------------------------------------

    def _begin(self) -> Candidacy:
        if self._candidacy is not None and not self._candidacy.over:
            raise ConfigError(
                f"election {self._shown!r} is already running: create another object for another candidate"
            )
        self._candidacy = Candidacy()
        return self._candidacy

    def _running(self) -> Candidacy:
        if self._candidacy is None:
            raise ConfigError(f"election {self._shown!r} has not started: use it in a `with` or an `async with`")
        return self._candidacy

    def _resigned(self) -> Grant | None:
        candidacy = self._running()
        grant = candidacy.grant
        if grant is not None:
            candidacy.resign(grant)
        return grant

    def _ended(self, grant: Grant) -> None:
        if self._candidacy is not None:
            self._candidacy.resign(grant)

    def __repr__(self) -> str:
        return f"<Election {self._shown!r}{' leader' if self.leader else ''}>"


def _status(state: LockState) -> ElectionStatus:
    leader = None if state.owner is None else read(state.owner, state.request)
    return ElectionStatus(leader, state.fence, state.expires_in, state.waiters)
