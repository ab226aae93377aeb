"""The methods of Lockwork that have to do with schedules."""

from __future__ import annotations

from typing import Any, Unpack, overload

from lockwork.config import Config
from lockwork.errors import ConfigError
from lockwork.partitions import routing_name
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys, checked_queue
from lockwork.protocol.queues import schedules as protocol
from lockwork.protocol.queues.schedules import SchedulePlan
from lockwork.runtime.runtime import Runtime
from lockwork.schedules.options import ScheduleRules, ScheduleSettings, call_without_arguments, checked_schedule
from lockwork.schedules.schedule import Schedule, ScheduleStatus, checked_count, status
from lockwork.tasks.call import TaskCall
from lockwork.tasks.registry import Registry
from lockwork.tasks.task import Task


class Schedules:
    """Part of Lockwork: calls that are enqueued by the clock."""

    runtime: Runtime
    config: Config
    registry: Registry
    plans: dict[str, dict[str, SchedulePlan]]
    """What this app's code schedules, by queue and name; the workers of the app see to it."""
    _own_plans: dict[str, tuple[str, SchedulePlan]]
    """Those of them that are options of a task, by its name, with the queue."""

    @overload
    def schedule(self, call: TaskCall, /, *, name: str, **options: Unpack[ScheduleSettings]) -> Schedule: ...
    @overload
    def schedule(self, name: str, /, *, queue: str = "default") -> Schedule: ...

    def schedule(self, what: TaskCall | str, /, **options: Any) -> Schedule:
        """Enqueue a call, such as `send.call(42)`, by the clock: `cron="0 9 * * mon-fri", tz=...` or `every="10m"`.

        Each slot is enqueued once in the whole cluster, by the first worker of the queue that has this line in its
        code. For the options see lockwork.schedules.options.ScheduleSettings. With the name of a schedule instead of a
        call, return the handle of a schedule that was declared elsewhere; a task's own schedule has the task's name.
        Raises ConfigError.
        """
        if isinstance(what, TaskCall):
            return self._declared(what, options.pop("name", None), options)
        if isinstance(what, str):
            queue = options.pop("queue", "default")
            if options:
                shown = ", ".join([f"name={what!r}", *(f"{option}=..." for option in options if option != "name")])
                raise ConfigError(
                    f"lw.schedule({what!r}) finds a schedule again, and has no option but queue=: to make one, give a "
                    f"call of a task, such as lw.schedule(send.call(42), {shown})"
                )
            return self._named(what, queue)
        raise ConfigError(
            f"a schedule needs a call of a task, such as send.call(42), or a schedule's name, not {what!r:.60}"
        )

    def _declared(self, call: TaskCall, name: Any, options: Any) -> Schedule:
        plan = ScheduleRules.read(options).plan(name, call)
        home = self._home(call, plan)
        self.plans.setdefault(home, {}).setdefault(name, plan)
        return self._named(name, home)

    def _named(self, name: str, queue: str = "default") -> Schedule:
        whole, name = checked_queue(queue), checked_schedule(name)
        home = self._known(whole, name) or self.config.partitions.place(whole, name)
        return Schedule(self.runtime, self.config.prefix, name, home, self.registry.context.errors)

    def schedules(self, queue: str | None = None, *, count: int = 1) -> list[ScheduleStatus]:
        """List the schedules that living workers have in their code, each with its next `count` slots.

        Those of one queue, or else of all queues for which this app has tasks.
        """
        return self.runtime.run(self._listed(queue, count))

    async def aschedules(self, queue: str | None = None, *, count: int = 1) -> list[ScheduleStatus]:
        """Async version of `schedules`."""
        return await self.runtime.arun(self._listed(queue, count))

    def _own_schedule(self, task: Task[Any, Any, Any], timing: ScheduleSettings, *, again: bool) -> None:
        """Schedule a task by its own options, if any; raises ConfigError, and then nothing has changed.

        `again`: its module was loaded again, so what its options were before does not count any more.
        """
        name, before = task.name, self._own_plans.get(task.name) if again else None
        own: tuple[str, SchedulePlan] | None = None
        if timing:
            call = call_without_arguments(task)
            plan = ScheduleRules.read(timing).plan(name, call)
            own = self._home(call, plan, None if before is None else before[1]), plan
        if before is not None:
            del self.plans[before[0]][name], self._own_plans[name]
        if own is not None and self.plans.setdefault(own[0], {}).setdefault(name, own[1]) is own[1]:
            self._own_plans[name] = own

    def _home(self, call: TaskCall, plan: SchedulePlan, before: SchedulePlan | None = None) -> str:
        """Where a plan belongs; raises ConfigError when another one, but for `before`, has its name."""
        known = self._known(call.queue, plan.name)
        if known is None or self.plans[known][plan.name] is before:
            return self.config.partitions.place(call.queue, routing_name(call.record) or plan.name)
        if self.plans[known][plan.name].digest != plan.digest:
            raise ConfigError(
                f"two schedules of queue {call.queue!r} are named {plan.name!r}: give one of them another name"
            )
        return known

    def _known(self, queue: str, name: str) -> str | None:
        """The partition of a queue, or the queue, in which this app's code has a schedule of that name."""
        homes = self.config.partitions.names(queue)
        return next((home for home in homes if name in self.plans.get(home, ())), None)

    def _listed(self, queue: str | None, count: int) -> Protocol[list[ScheduleStatus]]:
        found, slots = list[ScheduleStatus](), checked_count(count)
        queues = self.registry.queues() if queue is None else [checked_queue(queue)]
        for each in (name for one in queues for name in self.config.partitions.names(one)):
            now, known = yield from protocol.listed(QueueKeys(self.config.prefix, each))
            found += [status(each, row, now, slots) for row in known]
        return found
