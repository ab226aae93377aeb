"""Cancelling: hears which jobs are to be cancelled, and stops those that are here."""

from __future__ import annotations

from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.messages import Hints
from lockwork.protocol.queues import job_control as control
from lockwork.protocol.queues.leases import RECHECK
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.worker.execution.executor import Executor
from lockwork.jobs.current import Desk
from lockwork.worker.execution.slots import Lanes

log: Log = Log("lockwork.worker")


async def cancel(driver: AsyncDriver, desk: Desk, lanes: Lanes, executor: Executor) -> None:
    """Run until cancelled. A message may be lost, so it asks by itself, too, as long as jobs run here."""
    pause, hints = RECHECK, Hints()
    while True:
        heard = await driver.run(control.hear(desk.keys, pause, hints))
        held = lanes.held(executor, desk.queue)
        asked: set[str] = set()
        try:
            if held:
                asked = await driver.run(control.asked(desk.keys, desk.session, held))
        except LockworkError as error:
            log.warning("whether jobs are to be cancelled cannot be asked: %s", error)
        lanes.stop(asked, executor, desk.queue)
        # one that is not here: the call that leased it has not come back yet, or it has just ended
        pause = control.SOON if heard and heard not in asked else min(RECHECK, pause * 2)
