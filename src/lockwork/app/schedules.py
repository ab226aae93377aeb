"""Schedules: declared with a call, found by name, or listed."""

from __future__ import annotations

from typing import Any

from lockwork.config import Config
from lockwork.errors import ConfigError
from lockwork.protocol.effects import Protocol, concurrently
from lockwork.protocol.keys import QueueKeys, checked_queue
from lockwork.protocol.schedules.schedules import listed
from lockwork.runtime.runtime import Runtime
from lockwork.schedules.options import checked_schedule
from lockwork.schedules.plans import SchedulePlans
from lockwork.schedules.schedule import Schedule, ScheduleStatus, checked_count, status
from lockwork.tasks.call import TaskCall
from lockwork.tasks.registry import Registry


class Schedules:
    """Declares, finds and lists schedules."""

    def __init__(self, runtime: Runtime, config: Config, registry: Registry, plans: SchedulePlans) -> None:
        self._runtime = runtime
        self._config = config
        self._registry = registry
        self._plans = plans

    def declare(self, call: TaskCall, options: dict[str, Any]) -> Schedule:
        """Plan a call, and return the handle of its schedule; raises ConfigError."""
        name = options.pop("name", None)
        return self._handle(name, self._plans.declare(call, name, options))

    def find(self, name: object, options: dict[str, Any]) -> Schedule:
        """Return the handle of an existing schedule; raises ConfigError for options that would create one."""
        if not isinstance(name, str):
            raise ConfigError(
                f"a schedule needs a call of a task, such as send.call(42), or a schedule's name, not {name!r:.60}"
            )
        queue = options.pop("queue", "default")
        if options:
            arguments = ", ".join([f"name={name!r}", *(f"{option}=..." for option in options if option != "name")])
            raise ConfigError(
                f"lw.schedule({name!r}) returns an existing schedule, and takes only queue=. To create one, pass "
                f"a call of a task, such as lw.schedule(send.call(42), {arguments})"
            )
        queue, name = checked_queue(queue), checked_schedule(name)
        return self._handle(name, self._plans.partition(queue, name))

    def statuses(self, queue: str | None, count: int) -> Protocol[list[ScheduleStatus]]:
        """Read the schedules of running workers; see `Lockwork.schedules`."""
        slots = checked_count(count)
        queues = self._registry.queues() if queue is None else [checked_queue(queue)]
        names = [name for each in queues for name in self._config.partitions.names(each)]
        pages = yield from concurrently([listed(QueueKeys(self._config.prefix, name)) for name in names])
        return [status(name, row, now, slots) for name, (now, rows) in zip(names, pages, strict=True) for row in rows]

    def _handle(self, name: str, partition: str) -> Schedule:
        errors = self._registry.context.errors
        return Schedule(self._runtime, self._config.prefix, name, partition, errors, self._plans)
