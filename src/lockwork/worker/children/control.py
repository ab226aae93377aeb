"""What a child is told on its standard input: how urgently it has to end, and what became of others' jobs."""

from __future__ import annotations

import asyncio
import os
import select
from enum import IntEnum

from lockwork.worker.settings import ENDED, QUIET, RETIRE, STOP


class Urgency(IntEnum):
    """Each goes further than the one before, and none is taken back."""

    WORK = 0
    QUIET = 1
    RETIRE = 2
    STOP = 3
    NOW = 4


_MEANINGS = {QUIET: Urgency.QUIET, RETIRE: Urgency.RETIRE, STOP: Urgency.STOP}


class Control:
    """Reads the lines; the end of the input means that the supervisor is gone."""

    def __init__(self, reader: asyncio.StreamReader, pipe: int) -> None:
        self.urgency: Urgency = Urgency.WORK
        self.gone: bool = False
        self.deserted: bool = False
        """Whether the supervisor is gone and had not told us to stop: it was killed."""
        self.ended: asyncio.Queue[bytes] = asyncio.Queue()
        """What is told of jobs that have ended elsewhere."""
        self._reader = reader
        self._pipe = os.dup(pipe)  # who reads it closes the other one at its end
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLHUP)
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._read(), name="lockwork-control")

    def alone(self) -> bool:
        """Return True if the supervisor is gone, by a look at the pipe itself: what was read may be older."""
        return bool(self._poll.poll(0))

    def raise_to(self, urgency: Urgency) -> None:
        """Make it at least so urgent."""
        if urgency > self.urgency:
            self.urgency = urgency
            self._changed.set()

    async def reached(self, urgency: Urgency) -> None:
        """Wait until it is at least so urgent."""
        while self.urgency < urgency:
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Read no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        os.close(self._pipe)

    async def _read(self) -> None:
        while line := await self._reader.readline():
            if line.startswith(ENDED):
                self.ended.put_nowait(line.removeprefix(ENDED))
                continue
            self.raise_to(_MEANINGS.get(line, Urgency.WORK))
        self.gone = True
        self.deserted = self.urgency < Urgency.STOP
        self.raise_to(Urgency.NOW)
