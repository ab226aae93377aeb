"""The tasks of an app by name: the only place where a name from the wire resolves."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from lockwork import introspection
from lockwork.errors import ConfigError, UnknownTask
from lockwork.hooks import is_async
from lockwork.protocol.keys import QueueKeys, base_queue, checked
from lockwork.protocol.queue.task_limits import LimitedTask
from lockwork.runtime.runtime import Runtime
from lockwork.suggestions import closest
from lockwork.tasks.app_context import AppContext
from lockwork.tasks.enqueue_batcher import EnqueueBatcher
from lockwork.tasks.task import Task


class Registry:
    """The tasks of one app by name; nothing else is ever called for a name from the wire."""

    def __init__(self) -> None:
        self.context: AppContext = AppContext()
        self._tasks: dict[str, Task[Any, Any, Any]] = {}
        self._aliases: dict[str, str] = {}
        """The name of the task that has an alias."""
        self._loadings: dict[str, object | None] = {}
        """A token for each task that changes when its module, script or cell runs again."""
        self._batchers: dict[str, EnqueueBatcher] = {}
        self._used_queues: set[str] = set()

    def check(self, task: Task[Any, Any, Any]) -> bool:
        """Return True if the task replaces one of the same module, loaded again; raises ConfigError as `add`."""
        self._check_aliases(task)
        namesake = self._tasks.get(task.name)
        if namesake is None:
            return False
        loading = introspection.loading(task.function)
        again = loading is not None and loading is not self._loadings[task.name]
        _check_same(task, namesake, again=again)
        return again

    def add(self, task: Task[Any, Any, Any]) -> None:
        """Register a task; raises ConfigError if another function, or another queue, has its name."""
        self.check(task)
        self._tasks[task.name], self._loadings[task.name] = task, introspection.loading(task.function)
        self._aliases = {alias: owner for alias, owner in self._aliases.items() if owner != task.name}
        self._aliases |= dict.fromkeys(task.options_in_force.aliases, task.name)

    def _check_aliases(self, task: Task[Any, Any, Any]) -> None:
        """Raise ConfigError if a name or an alias of the task is another task's."""
        if (owner := self._aliases.get(task.name, task.name)) != task.name:
            raise ConfigError(f"task {task.name!r}: its name is an alias of task {owner!r}; remove that alias")
        for alias in task.options_in_force.aliases:
            owner = alias if alias in self._tasks else self._aliases.get(alias, task.name)
            if owner != task.name or alias == task.name:
                raise ConfigError(f"task {task.name!r}: the alias {alias!r} is already used by task {owner!r}")

    def names(self) -> dict[str, Task[Any, Any, Any]]:
        """Return the tasks by each name under which jobs may call them."""
        return self._tasks | {alias: self._tasks[name] for alias, name in self._aliases.items()}

    def get(self, name: str) -> Task[Any, Any, Any]:
        """Return the task of this name or alias; raises UnknownTask."""
        try:
            return self._tasks[name]
        except KeyError:
            task = self.find(name)
        if task is not None:
            return task
        close = closest(name, self._tasks)
        if close:
            hint = f"here, but {close!r} is: was it renamed, or is its module not imported by the worker's module?"
        else:
            hint = "here: is its module imported by the worker's module, or was it renamed?"
        raise UnknownTask(f"no task is named {name!r} {hint}")

    def find(self, name: str) -> Task[Any, Any, Any] | None:
        """Return the task of this name or alias; None if there is none."""
        task = self._tasks.get(name)
        return self._tasks.get(self._aliases.get(name, "")) if task is None else task

    def complete(self, queues: Sequence[str]) -> None:
        """Read the annotations that could not be read at registration; raises ConfigError if one still cannot be."""
        for task in self.of(queues):
            task.signature.complete()

    def batcher(self, runtime: Runtime, keys: QueueKeys) -> EnqueueBatcher:
        """Return the batcher that the tasks of one queue share."""
        return self._batchers.setdefault(keys.base, EnqueueBatcher(runtime, keys))

    def of(self, queues: Sequence[str]) -> list[Task[Any, Any, Any]]:
        """Return the tasks of these queues or partitions."""
        base_queues = {base_queue(queue) for queue in queues}
        return [task for task in self._tasks.values() if not base_queues.isdisjoint(task.options_in_force.queues)]

    def limited_tasks(self, queue: str) -> dict[str, LimitedTask]:
        """Return the tasks of a queue or partition that have limits over all workers."""
        return {
            task.name: LimitedTask(task.options_in_force.limits, (task.name, *task.options_in_force.aliases))
            for task in self.of([queue])
            if any(task.options_in_force.limits)
        }

    def queues(self) -> list[str]:
        """Return the queues that the tasks name."""
        return sorted({queue for task in self._tasks.values() for queue in task.options_in_force.queues})

    def use(self, queue: str) -> None:
        """Record a queue that this process has enqueued jobs to."""
        self._used_queues.add(queue)

    def used_queues(self) -> list[str]:
        """Return the queues that the tasks name, and those of `use`."""
        return sorted({*self.queues(), *self._used_queues})


def task_name(function: object, name: str | None) -> str:
    """Return the task's name: `name`, else the function's; raises ConfigError if the function cannot be a task."""
    if not callable(function):
        hint = ": pass the task's name as name=" if isinstance(function, str) else ""
        raise ConfigError(f"a task needs a function, not {function!r:.60}{hint}")
    if isinstance(function, type):
        raise ConfigError(f"a task is made of a function, and {introspection.shown(function)} is a class")
    if introspection.wants_self(function):
        raise ConfigError(
            f"{introspection.shown(function)} is a method: a task must be a function of the module, because a job "
            "carries no object"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"a task returns its result, and {introspection.shown(function)} yields: return a list instead"
        )
    if is_async(function) and not inspect.iscoroutinefunction(function):
        raise ConfigError(f"a task is made of a function, and {function!r:.60} is an object: give its __call__")
    own = getattr(function, "__name__", None)
    if name is None and own in (None, "<lambda>"):
        raise ConfigError(f"{function!r:.60} has no name: set name= for the task")
    return checked(own if name is None else name, "a task's name")


def _check_same(task: Task[Any, Any, Any], taken: Task[Any, Any, Any], *, again: bool) -> None:
    """Raise ConfigError unless both are the same task: a job knows only the name, so one task would never run.

    `again`: its module or cell ran again, so the new task replaces the old one.
    """
    if not introspection.same_place(task.function, taken.function):
        raise ConfigError(
            f"task {task.name!r} of {introspection.shown(task.function)} has the same name as "
            f"{introspection.shown(taken.function)}: set name=... for one of them"
        )
    if again:
        return
    if not introspection.alike(task.function, taken.function):
        raise ConfigError(
            f"task {task.name!r} is made of two functions {introspection.shown(task.function)}, "
            "and a job could not tell them apart: set a different name=... for each"
        )
    before, now = taken.options_in_force.queue, task.options_in_force.queue
    if before != now:
        raise ConfigError(
            f"task {task.name!r} is registered for queue {before!r} and for queue {now!r}, and workers would serve "
            "only the second one: set a different name=... for each"
        )
