"""Reports changes of schedules at run time to the supervisor, whose scheduler fires them."""

from __future__ import annotations

from lockwork.protocol.effects import Clock, Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints, listen
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.worker.ipc.messages import Reporter, SchedulesChanged

_PAUSE = 60.0


async def report_schedule_changes(driver: AsyncDriver, keys: QueueKeys, reporter: Reporter) -> None:
    """Report each message about a change, until cancelled; the heartbeat notices changes whose message was lost."""
    hints = Hints()
    while True:
        if await driver.run(_changed(keys, hints)):
            reporter.report(SchedulesChanged(keys.name))


def _changed(keys: QueueKeys, hints: Hints) -> Protocol[bool]:
    """Wait for a message; return True if one arrived. After a broken connection, waiters get an empty text."""
    texts = list[str]()
    yield from listen(hints, keys.schedules, (yield Clock()) + _PAUSE, texts.append)
    return any(texts)
