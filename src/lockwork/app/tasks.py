"""The methods of `Lockwork` that register tasks, hooks, exceptions and lifespans."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from functools import partial
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, overload

from lockwork.app.announcement import announce_producer
from lockwork.app.state import AppState
from lockwork.config import check_names
from lockwork.durations import Duration
from lockwork.errors import ConfigError
from lockwork.failures import ErrorClass
from lockwork.hooks import Hooks
from lockwork.lifespans import L
from lockwork.protocol.keys import QueueKeys
from lockwork.schedules.options import ScheduledTaskSettings, split
from lockwork.tasks import registry
from lockwork.tasks.batch import Batching, BatchSettings
from lockwork.tasks.middleware import E, M
from lockwork.tasks.options import CallSettings, TaskOptions
from lockwork.tasks.task import Task

if TYPE_CHECKING:
    from lockwork.tasks.task import BatchTask

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class TaskMethods(AppState):
    """Decorators that register tasks and functions that workers call."""

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(self, function: None = None, /, **options: Unpack[ScheduledTaskSettings]) -> _Decorator: ...
    @overload
    def task(
        self, function: None = None, /, *, batch: int, linger: Duration = ..., **options: Unpack[ScheduledTaskSettings]
    ) -> _BatchDecorator: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        batch: int | None = None,
        linger: Duration | None = None,
        **options: Unpack[ScheduledTaskSettings],
    ) -> Any:
        """Register a function, `async def` or `def`, whose calls workers run; a `def` runs in a thread.

        Durations are seconds, a `timedelta`, or text such as "10m". `task.options(...)` sets most options for one call.

        Args:
            name: the task's name in jobs. Default: the function's name.
            queue: the queue of its jobs. Default "default".
            retries: how often a failed job runs again. Default 3.
            backoff: pause before the first retry, doubled each time, half of it jitter (default 1 s); or an
                `Exponential`, a list of pauses, or a function of the attempt that failed.
            retry_on: retry only after these exceptions; None (default): after all.
            give_up_on: never retry after these. Default none.
            max_deliveries: how often workers may start the job, whatever ends it; with 1 it never starts twice. None
                (default): `retries` limits failures, and 3 limits deaths of its worker.
            expires: a job that has not started by then ends as expired. Default None: never.
            timeout: maximum time of an attempt before it is cancelled or interrupted, and fails. Default None.
            hard_timeout: maximum time of an attempt before its process is killed. Default None.
            executor: "process" runs each job alone in a process. Default None: event loop or thread.
            priority: "high", "normal" (default) or "low", in strict order.
            key: jobs with the same key run one at a time, in order, such as "order:{order_id}". Default None.
            group: jobs of different groups take turns, such as "tenant:{tenant}". Default None.
            group_concurrency: jobs of one group that may run at once. Default None: no limit.
            group_rate: jobs of one group that may start per period, such as "10/s". Default None: no limit.
            replicas: replicas that must have a job before its enqueue returns, else JobNotReplicated. Default 0.
            unique: a name that only one waiting job has, such as "report:{user_id}"; True: all arguments. Default None.
            unique_until: the name is free when the job is "done" (default), at its "start", or after a duration.
            on_duplicate: "keep" (default) the waiting job, or "replace" its call with the new one.
            debounce: run the last call when no call has come for this long. Default: off.
            debounce_max: maximum delay since the first call. Default: no limit.
            keep_result: keep results for `job.result()`. Default True.
            result_ttl: how long a result is kept. Default: the app's setting.
            hide_arguments: the command line and the dashboard show no arguments of its jobs. Default False.
            tags: labels of the job. Default none.
            batch: maximum number of jobs that share one call, whose argument is the list of their arguments. Default:
                off.
            linger: maximum time that a job waits for its batch to fill.
            cron: also enqueue the task on a schedule: five fields, or @hourly, @daily, @weekly, @monthly, @yearly.
            tz: time zone of `cron`, such as "Europe/Berlin". Default UTC.
            every: instead of `cron`, a period of at least 1 s, counted from 1970 in UTC.
            misfire: missed slots: "once" (default) enqueues the newest, "skip" none later than `grace`, "all" each.
            grace: for "skip", how late a slot may be. Default 1 minute.
            catch_up: for "all", maximum number of slots to enqueue, the newest. Default 100.
            overlap: "allow" (default), or "skip" a slot while the schedule's last job has not ended.

        Raises ConfigError, with a suggestion for an unknown option.
        """
        single = get_annotations(CallSettings), "set it for single jobs, task.options({name}=...)"
        check_names(options, _TaskSettings, "a task has no option", single)
        batching = Batching.read(batch, linger)
        own, timing = split(options)
        chosen = TaskOptions.read(own)
        if batching is not None and chosen.in_process:
            raise ConfigError(
                'a batch task cannot have executor="process", because the worker process collects its jobs'
            )
        name = own.get("name")

        def register(function: Callable[..., Any]) -> Task[Any, Any, Any]:
            called = registry.task_name(function, name)
            keys = [QueueKeys(self.config.prefix, each) for each in self.config.partitions.names(chosen.queue)]
            batchers = [self.registry.batcher(self.runtime, each) for each in keys]
            context = self.registry.context
            context.announcing.begin(partial(announce_producer, self))
            task: Task[..., Any, Any] = Task(batchers, self.config, called, function, chosen, context, batching)
            self.plans.declare_own(task, timing, reloaded=self.registry.check(task))
            self.registry.add(task)
            return task

        return register if function is None else register(function)

    @property
    def hooks(self) -> Hooks:
        """Decorators for functions that are called when a job changes: `@lw.hooks.dead`, and so on."""
        return self.registry.context.hooks

    def middleware(self, function: M, /) -> M:
        """Decorate a generator function, `async def` or `def`, to run around the call of every job.

        It takes the job and yields once; `yield` runs the call and returns its result or raises its error. For a `def`
        task, a `def` middleware runs in the task's thread. The first registered middleware is the outermost. An
        exception of the middleware becomes the job's error; suppressing the job's error has no effect.
        """
        return self.registry.context.middlewares.add(function)

    def enqueue_middleware(self, function: E, /) -> E:
        """Decorate a `def` generator function to run around each enqueue, and give `headers` to its jobs.

        It takes the `Outgoing` jobs and yields once. Jobs find the headers in `current_job().headers`.
        """
        return self.registry.context.middlewares.add_enqueue(function)

    def lifespan(self, function: L, /) -> L:
        """Decorate a generator function, `async def` or `def`, to set up and tear down resources of a worker process.

        It takes no arguments and yields once. If the setup fails, the worker stops.
        """
        return self.lifespans.add(function)

    @overload
    def error_type(self, error: ErrorClass, /) -> ErrorClass: ...
    @overload
    def error_type(self, error: None = None, /, *, name: str) -> Callable[[ErrorClass], ErrorClass]: ...

    def error_type(self, error: Any = None, /, *, name: str | None = None) -> Any:
        """Register an exception class, as a decorator or by a call, so that `job.result()` raises it.

        All other errors arrive as JobFailed. Arguments and attributes travel as JSON; `__init__` does not run again.
        """
        errors = self.registry.context.errors
        return partial(errors.add, name=name) if error is None else errors.add(error, name)

    def override(self, provider: Callable[..., Any], instead: Callable[..., Any]) -> AbstractContextManager[None]:
        """Within the `with` block, use the provider `instead` in place of `provider`; for tests."""
        return self.registry.context.overrides.put(provider, instead)


class _TaskSettings(ScheduledTaskSettings, BatchSettings):
    """All arguments of `task`."""


class _BatchDecorator(Protocol):
    """What `task(batch=...)` returns."""

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


class _Decorator(Protocol):
    """What `task(...)` with options returns."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
