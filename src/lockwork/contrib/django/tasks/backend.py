"""The backend: `TASKS = {"default": {"BACKEND": "lockwork.contrib.django.tasks.LockworkBackend"}}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

from asgiref.sync import sync_to_async
from django.core.checks import CheckMessage, Error
from django.utils import timezone

from lockwork.contrib.django.app import project_app
from lockwork.contrib.django.tasks import options
from lockwork.contrib.django.tasks.framework import (
    AnyResult,
    AnyTask,
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from lockwork.contrib.django.tasks.options import LockworkTask
from lockwork.contrib.django.tasks.registered import queues_of, register, registered_as
from lockwork.contrib.django.tasks.results import TaskJob, find, moment, task_result
from lockwork.contrib.django.transactions import DjangoTransactions
from lockwork.errors import ConfigError
from lockwork.ids import enqueued_at
from lockwork.jobs.job import Job
from lockwork.protocol.effects import Protocol
from lockwork.protocol.index import index
from lockwork.protocol.keys import QueueKeys, is_name, whole_queue
from lockwork.tasks.on_commit import CommitWait
from lockwork.tasks.task import Task as JobTask

P = ParamSpec("P")
R = TypeVar("R")


class LockworkBackend(BaseTaskBackend):
    """Runs Django's tasks as jobs of the project's app; see docs/django.md."""

    task_class: type[AnyTask] = LockworkTask
    supports_defer: bool = True
    supports_async_task: bool = True
    supports_get_result: bool = True
    supports_priority: bool = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.defaults: Mapping[str, Any] = options.read_defaults({})
        """Options of the tasks that do not set them."""
        self._problem = ""
        try:
            for name in self.queues:
                whole_queue(name, "a queue of QUEUES")
            self.defaults = options.read_defaults(self.options)
            if self.defaults.get("on_commit"):
                DjangoTransactions().check(self.defaults["on_commit"])
        except ConfigError as error:
            self._problem = f"TASKS[{alias!r}] is wrong: {error}"

    def check(self, **kwargs: Any) -> list[CheckMessage]:  # noqa: ARG002 - Django's signature
        """Return the problems of the settings; it never calls the server."""
        return [Error(self._problem, id="lockwork.E003")] if self._problem else []

    def validate_task(self, task: AnyTask) -> None:
        """Raise InvalidTask if the backend cannot run the task; registers it when its module defines it."""
        super().validate_task(task)
        self._prepared(task)

    def enqueue(self, task: Task[P, R], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[P, R]:
        """Enqueue a call, and send `task_enqueued` when the server has it.

        Raises TypeError for arguments that do not fit the function or JSON, and the errors of `lockwork.Task.enqueue`.
        """
        prepared, result = self._sendable(task), _ready(self.alias, task, args, kwargs)
        waiting = _commit(prepared)
        register_callback = None if waiting is None else waiting.find()
        job = prepared.enqueue(*result.args, **result.kwargs)
        if not job.new:
            return cast("TaskResult[P, R]", self.get_result(job.id))
        _enqueued(result, job)
        if register_callback is None:
            task_enqueued.send_robust(sender=type(self), task_result=result)
        else:
            register_callback(partial(task_enqueued.send_robust, sender=type(self), task_result=result))
        return result

    async def aenqueue(self, task: Task[P, R], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[P, R]:
        """Async version of `enqueue`."""
        prepared, result = self._sendable(task), _ready(self.alias, task, args, kwargs)
        waiting = _commit(prepared)
        register_callback = None if waiting is None else await waiting.afind()
        job = await prepared.aenqueue(*result.args, **result.kwargs)
        if not job.new:
            return cast("TaskResult[P, R]", await self.aget_result(job.id))
        _enqueued(result, job)
        sending = partial(task_enqueued.send_robust, sender=type(self), task_result=result)
        if register_callback is None:
            await sync_to_async(sending)()
        else:
            await register_callback(sending)
        return result

    def get_result(self, result_id: str) -> AnyResult:
        """Read a result. Raises TaskResultDoesNotExist, also for the id of another backend or of `lw.task`."""
        return self._result(project_app().runtime.run(self._find(result_id)), result_id)

    async def aget_result(self, result_id: str) -> AnyResult:
        """Async version of `get_result`."""
        return self._result(await project_app().runtime.arun(self._find(result_id)), result_id)

    def _sendable(self, task: AnyTask) -> JobTask[..., Any, Any]:
        """Return the app's task, if a worker can know the task; raises InvalidTask."""
        super().validate_task(task)
        if task.func.__module__ == "__main__":
            raise InvalidTask(
                f"the task {task.name!r} is in the main module, and no worker imports it: move it to a module"
            )
        return self._prepared(task)

    def _prepared(self, task: AnyTask) -> JobTask[..., Any, Any]:
        """Return the app's task with the options of this task; raises InvalidTask."""
        if self._problem:
            raise InvalidTask(self._problem)
        try:
            settings = options.settings_of(task, self.defaults)
            return register(self, task).changed(self.alias, task, settings, _due(task.run_after))
        except ConfigError as error:
            raise InvalidTask(str(error)) from None

    def _find(self, id: str) -> Protocol[TaskJob | None]:
        if not isinstance(id, str) or not is_name(id):
            return None
        app = project_app()
        names = self.queues or app.registry.queues()
        found = yield from find(queues_of(app, names), id, app.runtime.payloads)
        if found is None and not self.queues:
            everywhere = yield from index.queues(app.config.prefix)
            found = yield from find(
                [QueueKeys(app.config.prefix, name) for name in everywhere], id, app.runtime.payloads
            )
        return found

    def _result(self, found: TaskJob | None, id: str) -> AnyResult:
        if found is None or found.kept.facts.backend != self.alias:
            raise TaskResultDoesNotExist(id)
        registered = registered_as(found.kept.task)
        if registered is None:
            raise TaskResultDoesNotExist(f"{id}: its task {found.kept.task!r} is not imported here")
        return task_result(found, registered.task_of(found.kept.facts, found.queue), id)


def _ready(alias: str, task: Task[P, R], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[P, R]:
    """Return the result of a call that is not enqueued yet, with its arguments as JSON holds them."""
    return TaskResult(
        task=task,
        id="",
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def _enqueued(result: AnyResult, job: Job[Any]) -> None:
    object.__setattr__(result, "id", job.id)
    object.__setattr__(result, "enqueued_at", moment((enqueued_at(job.id) or 0) * 1000))


def _commit(task: JobTask[..., Any, Any]) -> CommitWait | None:
    return project_app().registry.context.commits.wait(task.options_in_force.on_commit)


def _due(run_after: datetime | None) -> datetime | None:
    """Return the time with a zone; without USE_TZ, that of the project."""
    if run_after is not None and timezone.is_naive(run_after):
        return timezone.make_aware(run_after, timezone.get_default_timezone())
    return run_after
