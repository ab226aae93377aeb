"""The tasks of an app by name: the only place where a name from the wire resolves."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from lockwork import introspection
from lockwork.errors import ConfigError, UnknownTask
from lockwork.hooks import is_async
from lockwork.protocol.keys import QueueKeys, base_queue, checked
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.app_context import AppContext
from lockwork.tasks.enqueue_batcher import EnqueueBatcher
from lockwork.tasks.task import Task


class Registry:
    """The tasks of one app by name; nothing else is ever called for a name from the wire."""

    def __init__(self) -> None:
        self.context: AppContext = AppContext()
        self._tasks: dict[str, Task[Any, Any, Any]] = {}
        self._loadings: dict[str, object] = {}
        """A token for each task that changes when its module is reloaded."""
        self._batchers: dict[str, EnqueueBatcher] = {}

    def check(self, task: Task[Any, Any, Any]) -> bool:
        """Return True if the task replaces one of a reloaded module; raises ConfigError as `add`."""
        taken = self._tasks.get(task.name)
        if taken is None:
            return False
        again = introspection.loading(task.function) is not self._loadings[task.name]
        _check_same(task, taken, again=again)
        return again

    def add(self, task: Task[Any, Any, Any]) -> None:
        """Register a task; raises ConfigError if another function, or another queue, has its name."""
        self.check(task)
        self._tasks[task.name], self._loadings[task.name] = task, introspection.loading(task.function)

    def get(self, name: str) -> Task[Any, Any, Any]:
        """Return the task; raises UnknownTask."""
        try:
            return self._tasks[name]
        except KeyError:
            close = get_close_matches(name, self._tasks, 1)
            if close:
                said = (
                    f"here, but {close[0]!r} is: was it renamed, or is its module not imported by the worker's module?"
                )
            else:
                said = "here: is its module imported by the worker's module, or was it renamed?"
            raise UnknownTask(f"no task is named {name!r} {said}") from None

    def batcher(self, runtime: Runtime, keys: QueueKeys) -> EnqueueBatcher:
        """Return the batcher that the tasks of one queue share."""
        return self._batchers.setdefault(keys.base, EnqueueBatcher(runtime, keys))

    def of(self, queues: Sequence[str]) -> list[Task[Any, Any, Any]]:
        """Return the tasks of these queues or partitions."""
        wanted = {base_queue(queue) for queue in queues}
        return [task for task in self._tasks.values() if task.options_in_force.queue in wanted]

    def queues(self) -> list[str]:
        """Return the queues that the tasks use."""
        return sorted({task.options_in_force.queue for task in self._tasks.values()})


def task_name(function: object, name: str | None) -> str:
    """Return the name to register a function under: its own unless one is given; raises ConfigError for no task."""
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

    `again`: its module was reloaded, so the new task replaces the old one.
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
