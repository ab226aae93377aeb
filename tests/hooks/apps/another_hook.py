"""The app `observed` with another hook, which the variable HOOK selects."""

from __future__ import annotations

import asyncio
import os
import time

from observed import lw  # type: ignore[import-not-found]  # beside it, when a worker runs it

from lockwork.hooks import Died, Failed
from lockwork.worker.ipc.messages import Ready, Reported
from lockwork.worker.supervisor.supervisor import Supervisor
from notes import record


async def slow(event: Failed) -> None:
    await asyncio.sleep(0.4)
    record("slow", id=event.id, attempt=event.attempt)


def fatal(event: Died) -> None:
    record("fatal", id=event.id)
    os._exit(9)


handle = Supervisor._on_report


def handle_late(supervisor: Supervisor, session: str, message: Reported) -> None:
    """Delay the report of a start, as a busy machine does, so that the process ends before it is read."""
    if message == Ready():
        time.sleep(1)
    handle(supervisor, session, message)


if os.environ.get("REPORTS") == "late":
    # in the program that the test starts: its monkeypatch does not reach it
    Supervisor._on_report = handle_late  # type: ignore[assignment, method-assign]

if os.environ["HOOK"] == "slow":
    lw.hooks.failure(slow)
else:
    lw.hooks.dead(fatal)
