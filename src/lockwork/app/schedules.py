"""Schedules: declared with a call, found by name, or listed."""

from __future__ import annotations

import time
from typing import Any

from lockwork import introspection
from lockwork.config import Config
from lockwork.errors import ConfigError
from lockwork.logs import Log
from lockwork.partitions import routing_name
from lockwork.protocol.effects import Protocol, concurrently
from lockwork.protocol.keys import QueueKeys, checked_queue
from lockwork.protocol.schedules import created
from lockwork.protocol.schedules.schedules import SchedulePlan, listed
from lockwork.protocol.scripts import codes
from lockwork.runtime.runtime import Runtime
from lockwork.schedules.options import ScheduleRules, checked_schedule
from lockwork.schedules.plans import SchedulePlans
from lockwork.schedules.schedule import Schedule, ScheduleStatus, checked_count, status
from lockwork.schedules.timing import At
from lockwork.tasks.call import TaskCall
from lockwork.tasks.registry import Registry
from lockwork.validation import whole

log: Log = Log("lockwork")


class Schedules:
    """Declares, creates, finds and lists schedules."""

    def __init__(self, runtime: Runtime, config: Config, registry: Registry, plans: SchedulePlans) -> None:
        self._runtime = runtime
        self._config = config
        self._registry = registry
        self._plans = plans

    def declare(self, call: TaskCall, options: dict[str, Any]) -> Schedule:
        """Plan a call, and return the handle of its schedule; raises ConfigError."""
        name = options.pop("name", None)
        handle = self._handle(name, self._plans.declare(call, name, options))
        if self._runtime.opened and not self._plans.served and not introspection.during_import("lockwork."):
            log.warning(
                "lw.schedule() declared %r in a process that is no worker, so it may never fire: move the line to a "
                "module that workers import, or use lw.create_schedule(), which stores the schedule on the server",
                name,
            )
        return handle

    def create(self, call: TaskCall, options: dict[str, Any]) -> Protocol[Schedule]:
        """Create or change a schedule on the server, and return its handle; raises ConfigError."""
        plan, home = self._created_plan(call, options)
        code = yield from created.create(
            QueueKeys(self._config.prefix, home),
            plan.name, plan.digest, plan.timing, plan.definition, plan.record, plan.begin,
        )  # fmt: skip
        if code == codes("schedules/create").declared:
            raise _in_code(plan.name, call.queue)
        return self._handle(plan.name, home, plan)

    def _created_plan(self, call: object, options: dict[str, Any]) -> tuple[SchedulePlan, str]:
        """Return the plan of a schedule to create, and its queue or partition; raises ConfigError."""
        if not isinstance(call, TaskCall):
            raise ConfigError(f"create_schedule needs a call of a task, such as send.call(42), not {call!r:.60}")
        name = checked_schedule(options.pop("name", None))
        rules = ScheduleRules.read(options, created=True)  # type: ignore[arg-type] # `read` checks the names
        if isinstance(rules.timing, At) and rules.timing.moment <= time.time() * 1000:
            raise ConfigError(f"schedule {name!r} would never fire: at= is in the past ({options['at']})")
        plan = rules.plan(name, call, self._plans.payloads)
        if self._plans.declares(call.queue, name):
            raise _in_code(name, call.queue)
        partitions = self._config.partitions
        if call.queue in partitions.counts and routing_name(call.record):
            raise ConfigError(
                f"queue {call.queue!r} has partitions, and the key or group of this call selects one of them: create "
                "the schedule for a task without key= and group=, which enqueues the job"
            )
        return plan, partitions.place(call.queue, name)

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

    def statuses(self, queue: str | None, count: int, limit: int | None) -> Protocol[list[ScheduleStatus]]:
        """Read the schedules of running workers; see `Lockwork.schedules`."""
        slots, most = checked_count(count), None if limit is None else whole(limit, "limit", 1, 1 << 40)
        queues = self._registry.used_queues() if queue is None else [checked_queue(queue)]
        names = [name for each in queues for name in self._config.partitions.names(each)]
        pages = yield from concurrently([listed(QueueKeys(self._config.prefix, name), most) for name in names])
        return [status(name, row, now, slots) for name, (now, rows) in zip(names, pages, strict=True) for row in rows]

    def _handle(self, name: str, partition: str, plan: SchedulePlan | None = None) -> Schedule:
        errors = self._registry.context.errors
        return Schedule(self._runtime, self._config.prefix, name, partition, errors, self._plans, plan)


def _in_code(name: str, queue: str) -> ConfigError:
    return ConfigError(
        f"schedule {name!r} of queue {queue!r} is declared by code: create one with another name, or remove it from "
        "the code first"
    )
