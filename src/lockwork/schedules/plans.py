"""The schedules that an app's code declares, for its workers to fire."""

from __future__ import annotations

from typing import Any

from lockwork.errors import ConfigError
from lockwork.partitions import Partitions, routing_name
from lockwork.payloads.payloads import Payloads
from lockwork.protocol.schedules.schedules import SchedulePlan
from lockwork.schedules.options import ScheduleRules, ScheduleSettings, call_without_arguments
from lockwork.tasks.call import TaskCall
from lockwork.tasks.task import Task


class SchedulePlans(dict[str, dict[str, SchedulePlan]]):
    """The plans of one app, by queue or partition, and by name."""

    def __init__(self, partitions: Partitions, payloads: Payloads | None = None) -> None:
        super().__init__()
        self._partitions = partitions
        self.payloads: Payloads | None = payloads
        self.served: bool = False
        """True in a worker, which fires them."""
        self._own: dict[str, tuple[str, SchedulePlan]] = {}
        """The plans that are options of a task, by the task's name, with their queue or partition."""

    def declare(self, call: TaskCall, name: Any, settings: Any) -> str:
        """Plan a call; returns its queue or partition. Raises ConfigError if another plan has the name."""
        plan = ScheduleRules.read(settings).plan(name, call, self.payloads)
        home = self._home(call, plan)
        self.setdefault(home, {}).setdefault(name, plan)
        return home

    def declare_own(self, task: Task[Any, Any, Any], settings: ScheduleSettings, *, reloaded: bool) -> None:
        """Plan a task by its own options, if any; raises ConfigError, and then nothing has changed.

        `reloaded`: the task's module was loaded again, so the plan of its former options is dropped.
        """
        name, former = task.name, self._own.get(task.name) if reloaded else None
        own: tuple[str, SchedulePlan] | None = None
        if settings:
            call = call_without_arguments(task)
            plan = ScheduleRules.read(settings).plan(name, call, self.payloads)
            own = self._home(call, plan, None if former is None else former[1]), plan
        if former is not None:
            del self[former[0]][name], self._own[name]
        if own is not None and self.setdefault(own[0], {}).setdefault(name, own[1]) is own[1]:
            self._own[name] = own

    def declares(self, queue: str, name: str) -> bool:
        """Return True if the code has a schedule of that name."""
        return self._declared(queue, name) is not None

    def partition(self, queue: str, name: str) -> str:
        """Return the partition of that schedule, also of another app's; `queue` if the queue has no partitions."""
        return self._declared(queue, name) or self._partitions.place(queue, name)

    def _home(self, call: TaskCall, plan: SchedulePlan, former: SchedulePlan | None = None) -> str:
        """Return a plan's queue or partition; raises ConfigError if another plan, except `former`, has its name."""
        partition = self._declared(call.queue, plan.name)
        if partition is None or self[partition][plan.name] is former:
            return self._partitions.place(call.queue, routing_name(call.record) or plan.name)
        if self[partition][plan.name].digest != plan.digest:
            raise ConfigError(
                f"two schedules of queue {call.queue!r} are named {plan.name!r}: give one of them another name"
            )
        return partition

    def _declared(self, queue: str, name: str) -> str | None:
        """Return the partition, or the queue, of this app's schedule of that name; None if the code has none."""
        return next((home for home in self._partitions.names(queue) if name in self.get(home, ())), None)
