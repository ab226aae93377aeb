"""The registration of task functions."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from lockwork.app.announcement import AnnouncingApp, announce_producer
from lockwork.config import check_names
from lockwork.durations import Duration
from lockwork.errors import ConfigError
from lockwork.foreign_words import TASK_OPTIONS
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.runtime import Runtime
from lockwork.schedules.options import ScheduledTaskSettings, split
from lockwork.tasks import registry
from lockwork.tasks.batch import Batching, BatchSettings
from lockwork.tasks.enqueue_batcher import EnqueueBatcher
from lockwork.tasks.options import CallSettings, TaskOptions
from lockwork.tasks.task import Task

if TYPE_CHECKING:
    from lockwork.tasks.task import BatchTask

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class RegisteringApp(AnnouncingApp, Protocol):
    """The attributes of an app that its tasks need."""

    @property
    def runtime(self) -> Runtime: ...


def task_decorator(
    app: RegisteringApp, batch: int | None, linger: Duration | None, options: ScheduledTaskSettings
) -> Callable[[Callable[..., Any]], Task[Any, Any, Any]]:
    """Check the options, and return the decorator that registers a function with them; see `Lockwork.task`."""
    single = get_annotations(CallSettings), "set it for single jobs, task.options({name}=...)"
    check_names(options, _TaskSettings, "a task has no option", single, TASK_OPTIONS)
    batching = Batching.read(batch, linger)
    own, timing = split(options)
    chosen = TaskOptions.read(own)
    if batching is not None and chosen.in_process:
        raise ConfigError('a batch task cannot have executor="process", because the worker process collects its jobs')
    name = own.get("name")

    def batchers(queue: str) -> list[EnqueueBatcher]:
        app.registry.use(queue)
        keys = [QueueKeys(app.config.prefix, each) for each in app.config.partitions.names(queue)]
        return [app.registry.batcher(app.runtime, each) for each in keys]

    def register(function: Callable[..., Any]) -> Task[Any, Any, Any]:
        task_name = registry.task_name(function, name)
        context = app.registry.context
        context.announcing.begin(partial(announce_producer, app))
        task: Task[..., Any, Any] = Task(batchers, app.config, task_name, function, chosen, context, batching)
        app.plans.declare_own(task, timing, reloaded=app.registry.check(task))
        app.registry.add(task)
        return task

    return register


class _TaskSettings(ScheduledTaskSettings, BatchSettings):
    """All arguments of `task`."""


class BatchTaskDecorator(Protocol):
    """The decorator that `lw.task(batch=...)` returns."""

    @overload
    def __call__(
        self, function: Callable[[list[T]], Coroutine[Any, Any, None]], /
    ) -> BatchTask[T, None, Coroutine[Any, Any, None]]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Coroutine[Any, Any, Sequence[R | Exception]]], /
    ) -> BatchTask[T, R, Coroutine[Any, Any, Sequence[R | Exception]]]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], None], /) -> BatchTask[T, None, None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Sequence[R | Exception]], /
    ) -> BatchTask[T, R, Sequence[R | Exception]]: ...


class TaskDecorator(Protocol):
    """The decorator that `lw.task(...)` returns for options."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
