"""Settles outcomes in batches: outcomes that arrive during a call are sent with the next."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from operator import attrgetter

from lockwork.errors import ServerRefused
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import SETTLE_BATCH, Outcome
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.runtime.trying import backoff
from lockwork.words import several
from lockwork.worker.environment import AGAIN

log: Log = Log("lockwork.worker")

_FAULTS = 3
"""Number of times that the server may refuse one outcome, while it accepts others, before the outcome is dropped."""
_NOBODYS = Outcome("", b"", "g")
_RETURNED = frozenset("gnzu")
"""The kinds of outcomes that return a job."""
_TASK = attrgetter("task")


class Settler:
    """Settles one queue's outcomes for one session; retries while the server is unreachable."""

    def __init__(
        self, driver: AsyncDriver, keys: QueueKeys, session: str, window_ms: int, tracked: Container[str] = ()
    ) -> None:
        self._driver = driver
        self._keys = keys
        self._session = session
        self._window_ms = window_ms
        self._tracked = tracked
        self._confirmations: dict[str, asyncio.Future[bool]] = {}
        """Results of `confirmed`, by job."""
        self._waiting: list[Outcome] = []
        self._leaving: list[Outcome] = []
        self._refused: list[Outcome] = []
        self._task: asyncio.Task[None] | None = None
        self._complaint = 0.0
        """Time of the next warning."""
        self.failing: bool = False
        """True while the server accepts no outcomes."""

    def add(self, outcome: Outcome) -> None:
        """Settle an outcome soon."""
        self._waiting.append(outcome)
        if outcome.task in self._tracked and outcome.kind not in _RETURNED:
            self._confirmations[outcome.id] = asyncio.get_running_loop().create_future()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="lockwork-settle")

    async def confirmed(self, id: str) -> bool:
        """Wait until the outcome of a tracked task's job is on the server; False if the server did not accept it."""
        confirmation = self._confirmations.get(id)
        if confirmation is None:
            return False
        try:
            return await confirmation
        finally:
            self._confirmations.pop(id, None)

    @property
    def busy(self) -> bool:
        """True if some outcomes may not be on the server yet."""
        return self._task is not None

    def unsettled(self) -> list[Outcome]:
        """Outcomes that are not on the server, or that it refused for good."""
        return [*self._waiting, *self._leaving, *self._refused]

    async def drained(self) -> None:
        """Wait until everything is settled."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._waiting:
                outcomes, self._waiting = self._waiting, []
                self._leaving = outcomes
                outcomes.sort(key=_TASK)  # the script counts by task; the stable sort keeps the order of returned jobs
                at = 0
                while at < len(outcomes):
                    at += await self._settle(outcomes[at : at + SETTLE_BATCH])
        finally:
            self._task = None
            self._leaving = []
            self.failing = False

    async def _settle(self, batch: list[Outcome]) -> int:
        """Settle the first outcomes of the batch, and return their number.

        Retries for as long as the server is unreachable, read-only or full: a job whose outcome is lost would run
        again.
        """
        failures = faults = 0
        while isinstance(problem := await self._try(batch), Exception):
            failures += 1
            self._complain(batch, problem)
            if isinstance(problem, ServerRefused) and await self._try([_NOBODYS]) == 1:
                # the server and the queue work, so one of these outcomes is the cause
                if len(batch) > 1:
                    for outcome in batch:
                        await self._settle([outcome])
                    return len(batch)
                faults += 1
                if faults == _FAULTS:
                    self._refused.append(batch[0])
                    self._confirm(batch, [False])
                    log.error(
                        "job %s: the server refuses its outcome but accepts others, so the outcome is dropped; the "
                        "job stays leased to this worker process and runs again after it exits: %s",
                        batch[0].id,
                        problem,
                    )
                    return 1
            await asyncio.sleep(backoff(failures))
        return problem

    async def _try(self, batch: list[Outcome]) -> int | Exception:
        """Make one call; return the number of settled outcomes from the start of the batch, or the error."""
        try:
            settled = await self._driver.run(
                leases.settle_some(self._keys, self._session, batch, self._window_ms, self._tracked)
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, outcomes must not be lost by it
            self.failing = True
            return error
        self.failing = False
        if not all(settled):
            for outcome, is_settled in zip(batch, settled, strict=False):
                if not is_settled and outcome is not _NOBODYS:
                    log.warning("job %s: the lease had ended, or the outcome was already written", outcome.id)
        if self._confirmations:
            self._confirm(batch, settled)
        return len(settled)

    def _confirm(self, batch: list[Outcome], settled: list[bool]) -> None:
        for outcome, is_settled in zip(batch, settled, strict=False):
            confirmation = self._confirmations.get(outcome.id)
            if confirmation is not None and not confirmation.done():
                confirmation.set_result(is_settled)

    def _complain(self, batch: list[Outcome], problem: Exception) -> None:
        if now() >= self._complaint:
            self._complaint = now() + AGAIN
            waiting = several(len(batch), "outcome waits", "outcomes wait")
            log.warning("%s to be settled: %s", waiting, problem, exc_info=unforeseen(problem))
