"""Objects that an app provides to all its tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct, field

from lockwork.call_contexts import CallContexts
from lockwork.failures import Errors
from lockwork.hooks import Hooks
from lockwork.injection import Overrides
from lockwork.tasks.announcing import Announcing
from lockwork.tasks.middleware import Middlewares
from lockwork.tasks.observer import TaskObserver
from lockwork.tasks.on_commit import Commits

T = TypeVar("T")


class CallbackTasks:
    """Makes tasks whose jobs have `then` or `on_error`, by a function of the flows, which tasks cannot import."""

    def __init__(self) -> None:
        self._make: Callable[[Any], Any] | None = None

    def register(self, make: Callable[[Any], Any]) -> None:
        """Set the function that takes a task and returns it with callbacks."""
        self._make = make

    def of(self, task: T) -> T:
        """Return the task with callbacks."""
        assert self._make is not None
        made: T = self._make(task)
        return made


class AppContext(Struct, frozen=True):
    """Hooks, classes of errors, overridden dependencies, middlewares, and the announcements of producers.

    Integrations add context managers around calls, transactions that jobs wait for, and observers of tasks by name.
    Flows add the tasks with callbacks.
    """

    hooks: Hooks = field(default_factory=Hooks)
    errors: Errors = field(default_factory=Errors)
    overrides: Overrides = field(default_factory=Overrides)
    middlewares: Middlewares = field(default_factory=Middlewares)
    announcing: Announcing = field(default_factory=Announcing)
    call_contexts: CallContexts = field(default_factory=CallContexts)
    commits: Commits = field(default_factory=Commits)
    observers: dict[str, TaskObserver] = field(default_factory=dict[str, TaskObserver])
    callback_tasks: CallbackTasks = field(default_factory=CallbackTasks)
