"""The app of `clockwork` after a deployment that removed its schedules and added another one."""

from __future__ import annotations

from clockwork import greet as _greet  # type: ignore[import-not-found] # it is beside this file when a worker loads it
from clockwork import second as _second

from lockwork import Lockwork, current_job
from notes import record

lw = Lockwork()
second = lw.task(name="second", keep_result=False)(_second.function)
greet = lw.task(_greet.function)


@lw.task(every="1s", misfire="all", keep_result=False)
async def other() -> None:
    record("other", id=current_job().id)
