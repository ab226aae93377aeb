"""The tasks of Django that this process has imported, each registered as a task of the project's app."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from lockwork.app.lockwork import Lockwork
from lockwork.contrib.django.app import project_app
from lockwork.contrib.django.tasks import options
from lockwork.contrib.django.tasks.framework import (
    AnyResult,
    AnyTask,
    InvalidTask,
    Task,
    TaskContext,
    TaskResult,
    TaskResultStatus,
    task_backends,
)
from lockwork.contrib.django.tasks.kept import Facts
from lockwork.contrib.django.tasks.observer import JobObserver, running
from lockwork.contrib.django.tasks.results import TaskJob, find
from lockwork.durations import milliseconds
from lockwork.errors import ConfigError
from lockwork.jobs.current import current_job
from lockwork.protocol.keys import PRIORITIES, QueueKeys, base_queue
from lockwork.tasks.task import Task as JobTask

if TYPE_CHECKING:
    from lockwork.contrib.django.tasks.backend import LockworkBackend

_registering = threading.RLock()
_registered: dict[str, Registered] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Registered:
    """A task of Django, and the task of the app that runs its jobs."""

    app: Lockwork
    base: AnyTask
    """The task as its module defines it."""
    task: JobTask[..., Any, Any]
    settings: Mapping[str, Any]
    sender: type
    """The backend's class, which sends the signals."""

    def changed(
        self, alias: str, task: AnyTask, settings: Mapping[str, Any], run_after: datetime | None
    ) -> JobTask[..., Any, Any]:
        """Return the app's task with the options of this task; raises ConfigError, InvalidTask."""
        changes = options.changes_between(self.settings, settings)
        registered = self.task
        if task.queue_name != registered.options_in_force.queue:
            changes["queue"] = task.queue_name
        if level(task.priority) != level(self.base.priority):
            changes["priority"] = level(task.priority)
        if run_after is not None:
            changes["at"] = run_after
        when = None if task.run_after is None else task.run_after.isoformat()
        facts = Facts(alias, task.priority, when, options.own_options(task, self.base))
        job_task = registered.options(**changes) if changes else registered
        return job_task.tracking(facts.fields(), result_ms(self.app, settings))

    def task_of(self, facts: Facts, queue: str) -> AnyTask:
        """Return the task that was enqueued; as the module defines it, if the settings do not allow it any more."""
        changes: dict[str, Any] = {
            "backend": facts.backend,
            "priority": facts.priority,
            "queue_name": base_queue(queue),
            "run_after": None if facts.run_after is None else datetime.fromisoformat(facts.run_after),
        }
        known = {each.name for each in fields(self.base)}
        changes |= {name: value for name, value in facts.options.items() if name in known}
        if all(getattr(self.base, name) == value for name, value in changes.items()):
            return self.base
        try:
            return replace(self.base, **changes)
        except Exception:  # noqa: BLE001 - whatever the settings refuse now, the job exists
            return self.base

    async def afind(self, id: str) -> TaskJob | None:
        """Find a job of the task."""
        queues = queues_of(self.app, self.task.options_in_force.queues)
        return await self.app.runtime.arun(find(queues, id, self.app.runtime.payloads))


def result_ms(app: Lockwork, settings: Mapping[str, Any]) -> int:
    """Return the time that a result is kept, in ms: that of the app without `result_ttl`."""
    ttl = settings["result_ttl"]
    return milliseconds(app.config.result_ttl if ttl is None else ttl, "result_ttl")


def level(priority: int) -> str:
    """Return our priority for one of Django."""
    return PRIORITIES[(priority < 0) - (priority > 0) + 1]


def register(backend: LockworkBackend, task: AnyTask, queue: str = "") -> Registered:
    """Register a task when its module defines it; raises InvalidTask, ConfigError."""
    app, name = project_app(), task.module_path
    with _registering:
        known = _registered.get(name)
        if known is not None and known.base.func is task.func and known.app is app:
            return known
        settings: Any = options.settings_of(task, backend.defaults)
        queue = queue or task.queue_name
        others = [each for each in project_queues() if each != queue]
        priority: Any = level(task.priority)
        made = app.task(name=name, queue=queue, other_queues=others, priority=priority, **settings)(function_of(task))
        _registered[name] = registered = Registered(app, task, made, settings, type(backend))
        observer = JobObserver(app, registered, result_ms(app, settings))
        for each in (name, *made.options_in_force.aliases):
            app.registry.context.observers[each] = observer
        return registered


def registered_as(name: str) -> Registered | None:
    """Return the task of this name or alias, if its module is imported here."""
    found = project_app().registry.names().get(name)
    return None if found is None else _registered.get(found.name)


def register_imported() -> None:
    """Register the tasks of other backends, too: `using(backend=...)` may enqueue them here."""
    backends = [each for each in task_backends.all() if hasattr(each, "defaults")]
    for module in list(sys.modules.values()):
        for value in list(getattr(module, "__dict__", {}).values()):
            # `isinstance` would load lazy objects
            if issubclass(type(value), Task) and value.module_path not in _registered:
                backend: Any = backends[0]
                queues = project_queues()
                queue = value.queue_name if value.queue_name in queues or not queues else queues[0]
                try:
                    register(backend, value, queue)
                except (ConfigError, InvalidTask):
                    continue  # `using` raises it


def project_queues() -> list[str]:
    """Return the queues of all backends of this class."""
    from lockwork.contrib.django.tasks.backend import LockworkBackend  # noqa: PLC0415 - it imports this module

    names: dict[str, None] = {}
    for alias in task_backends:
        try:
            backend = task_backends[alias]
        except ImproperlyConfigured:
            continue  # Django says so at its first use
        if isinstance(backend, LockworkBackend):
            names |= dict.fromkeys(sorted(backend.queues))
    return list(names)


def queues_of(app: Lockwork, names: Iterable[str]) -> list[QueueKeys]:
    """Return the keys of all partitions of these queues."""
    return [QueueKeys(app.config.prefix, each) for name in names for each in app.config.partitions.names(name)]


def function_of(task: AnyTask) -> Callable[..., Any]:
    """Return the function that a worker calls: its arguments arrive as plain JSON, unconverted."""
    function, takes_context = task.func, task.takes_context

    def all_arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (TaskContext(task_result=_result_here(task)), *args) if takes_context else args

    if inspect.iscoroutinefunction(function):

        async def acall(*args: Any, **kwargs: Any) -> Any:
            return await function(*all_arguments(args), **kwargs)

        called: Any = acall
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*all_arguments(args), **kwargs)

        called = call
    functools.update_wrapper(called, function)
    empty = inspect.Parameter.empty
    parameters = list(inspect.signature(function).parameters.values())[1 if takes_context else 0 :]
    called.__signature__ = inspect.Signature([each.replace(annotation=empty) for each in parameters])
    return called  # type: ignore[no-any-return]


def _result_here(task: AnyTask) -> AnyResult:
    found = running.get()
    if found is not None:
        return found
    job = current_job()  # a test runs it without a worker
    return TaskResult(
        task=task,
        id=job.id,
        status=TaskResultStatus.RUNNING,
        enqueued_at=None,
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=[],
        kwargs={},
        backend=task.backend,
        errors=[],
        worker_ids=[job.worker] * job.attempt,
    )
