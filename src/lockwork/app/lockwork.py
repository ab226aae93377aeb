"""The `Lockwork` class: the one object that an app creates."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from lockwork import introspection
from lockwork.app.announced_tasks import AnnouncedTasks, stand_in
from lockwork.app.flows import Flows
from lockwork.app.job_search import JobSearch
from lockwork.app.process_locks import ProcessLocks
from lockwork.app.schedules import Schedules
from lockwork.app.shared_objects import SharedObjects
from lockwork.app.task_registration import BatchTaskDecorator, TaskDecorator, task_decorator
from lockwork.config import Config, Settings
from lockwork.durations import Duration, in_milliseconds
from lockwork.failures import ErrorClass
from lockwork.flows.flow import Flow
from lockwork.flows.runs import FlowPage, FlowRun
from lockwork.foreign_words import APP_METHODS, attribute_error
from lockwork.hooks import Hooks
from lockwork.jobs.gather import acompleted, agather, completed, gather
from lockwork.jobs.job import Job
from lockwork.jobs.search import JobFilter, JobPage
from lockwork.lifespans import L, Lifespans
from lockwork.protocol.flows.flows import Policy
from lockwork.protocol.keys import StockKeys, checked, whole_queue
from lockwork.protocol.search.search import BulkChange, Progress
from lockwork.runtime.connect import opener
from lockwork.runtime.runtime import Runtime
from lockwork.schedules.options import CreatedScheduleSettings, ScheduledTaskSettings, ScheduleSettings
from lockwork.schedules.plans import SchedulePlans
from lockwork.schedules.schedule import Schedule, ScheduleStatus
from lockwork.signatures import Signature
from lockwork.tasks.call import Next, ResultCall, TaskCall
from lockwork.tasks.middleware import E, M
from lockwork.tasks.registry import Registry
from lockwork.tasks.remote import RemoteTask
from lockwork.tasks.task import Task
from lockwork.telemetry import metrics
from lockwork.telemetry.metrics import MetricPoint, MetricSeries, Span
from lockwork.workers import App, EmbeddedWorker, Worker, WorkerHandle, read_apps, read_workers

P = ParamSpec("P")
R = TypeVar("R")


_apps: weakref.WeakSet[Lockwork] = weakref.WeakSet()


def apps_here() -> list[Lockwork]:
    """Return the Lockwork objects of this process."""
    return list(_apps)


class Lockwork(SharedObjects):
    """Locks, queues and stocks on Redis or Valkey, for threads and asyncio alike.

    It connects on first use. Durations are seconds, a `timedelta`, or text such as "10m".

    Args:
        url: redis://, rediss://, valkey://, valkeys://, unix://, redis+sentinel:// or redis+cluster://. None (default):
            LOCKWORK_URL, else an embedded Valkey server in this user's data folder, which this user's processes share;
            it stops with the last of them.
        client: a redis-py client whose address to use instead of a URL. Default None.
        prefix: begins every key and channel; apps with different prefixes do not see each other.
            Default LOCKWORK_PREFIX, else "lw".
        lock_lease: lifetime of a lock without renewal; a live process renews after each third of it. Default 15 s.
        patience: maximum time that a call tries to reach the server before ServerUnavailable. Default 10 s.
        result_ttl: minimum time that results are kept, and half of the maximum. At least 60 s. Default 10 minutes.
        dead_ttl: time that a dead job is kept. Default 30 days.
        dead_limit: maximum number of dead jobs per queue; the oldest are deleted first. Default 100,000.
        unknown_task_ttl: time until a job is dead if no live worker has its task. Default 1 day.
        history: ended jobs that each queue keeps, besides dead ones: the newest "10k" (default), all of a period such
            as "1d", or "off"; or a dict by queue, such as {"mail": "off"}.
        max_payload: maximum bytes of a job's encoded arguments. Default 1 MiB.
        max_result: maximum bytes of an encoded result. Default 4 MiB.
        codec: encrypts or signs arguments, results and everything else that jobs store, such as AesGcmCodec(keys) or
            HmacCodec(keys); or a dict by queue, such as {"partners": HmacCodec(keys)}. Default None.
        codec_rollout: to introduce a codec: "read" accepts plain payloads and writes them, "write" accepts them and
            encrypts or signs. Default None: plain payloads are refused.
        allow_eviction: accept a server whose maxmemory-policy may evict Lockwork's keys. Default False.
        partitions: number of partitions of a queue, such as {"mail": 4}; the same in all processes. Default none.
        ten_priorities: queues whose jobs may have the priorities 0 (first) to 9, such as ["mail"]. Default none.
        app_name: names this app in `apps` and `workers`. Default: its `module:object`, as given to `lockwork worker`.
        app_version: the version of the app's code, such as a commit, shown with its workers and marked in the
            dashboard's chart when it changes. Default LOCKWORK_APP_VERSION, else none.
    """

    def __init__(self, url: str | None = None, *, client: object = None, **settings: Unpack[Settings]) -> None:
        self.config: Config = Config.read(settings)
        self.made_in: str = introspection.calling_module("lockwork.")
        self.server_arguments: tuple[str | None, object] = url, client
        self.registry: Registry = Registry()
        self.plans: SchedulePlans = SchedulePlans(self.config.partitions, self.config.payloads)
        self.lifespans: Lifespans = Lifespans()
        self.warned_stocks: set[StockKeys] = set()
        _apps.add(self)
        self.runtime: Runtime = Runtime(
            opener(url, client),
            prefix=self.config.prefix,
            patience=self.config.patience,
            allow_eviction=self.config.allow_eviction,
            window_ms=in_milliseconds(self.config.result_ttl),
            payloads=self.config.payloads,
        )
        self._locks = ProcessLocks(self.runtime, self.config.prefix)
        self._jobs = JobSearch(self.runtime, self.config, self.registry)
        self._flows = Flows(self.runtime, self.config, self.registry.context)
        self._announced_tasks = AnnouncedTasks(self.runtime, self.config, self.registry)
        self._schedules = Schedules(self.runtime, self.config, self.registry, self.plans)

    def __repr__(self) -> str:
        return f"<Lockwork on {opened}>" if (opened := self.runtime.opened) else "<Lockwork, not open>"

    if not TYPE_CHECKING:  # type checkers must report these names as unknown

        def __getattr__(self, name: str) -> Any:
            raise attribute_error(type(self).__name__, name, APP_METHODS)

    def close(self) -> None:
        """Close connections and threads; locks still held end with their lease. A later call opens them again."""
        self.runtime.close()

    async def aclose(self) -> None:
        """Async version of `close`; each event loop that used this object should call it before it ends."""
        await self.runtime.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(self, function: None = None, /, **options: Unpack[ScheduledTaskSettings]) -> TaskDecorator: ...
    @overload
    def task(
        self, function: None = None, /, *, batch: int, linger: Duration = ..., **options: Unpack[ScheduledTaskSettings]
    ) -> BatchTaskDecorator: ...

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
            aliases: former names of the task; workers run jobs that were enqueued under them. Default none.
            queue: the queue of its jobs. Default "default".
            other_queues: queues, besides `queue`, that its jobs are often in, by `task.options(queue=...)`; workers
                serve them, and set up the task's dependencies before the first job. Default none.
            retries: maximum number of retries of a failed job. Default 3.
            backoff: pause before the first retry, doubled each time, half of it jitter (default 1 s); or an
                `Exponential`, a list of pauses, or a function of the attempt that failed.
            retry_on: retry only after these exceptions; None (default): after all.
            give_up_on: never retry after these. Default none.
            max_deliveries: maximum number of starts that fail, or whose process dies or is stopped; with 1, such a
                start is the last. `retries` still limits failures. A snoozed start does not count. None (default):
                `retries` limits failures, and 3 limits crashes: deaths of a process that ran only this job.
            rate: maximum number of its jobs that start per period, over all workers, such as "10/s". Default None.
            concurrency: maximum number of its jobs that run at once, over all workers. Default None.
            pause_after: a circuit breaker, such as "5 failures in 1m": then no job of the task starts for `pause_for`.
                Default None.
            pause_for: length of that pause; then one job runs, and its success resumes the task.
            expires: a job that has not started by then ends as expired. Default None: never.
            retry_until: no attempt begins after this time, and a failed job that would have to is dead. Default None.
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
            result_ttl: time that a result is kept. Default: the app's setting.
            hide_arguments: the command line and the dashboard show no arguments of its jobs. Default False.
            tags: labels of the job. Default none.
            on_commit: True: an enqueue inside a database transaction waits for its commit; or the name of the database.
                For integrations such as Django's; all others have `task.on_commit`. Default: the integration's setting.
            batch: maximum number of jobs that share one call, whose argument is the list of their arguments. Default:
                off.
            linger: maximum time that a job waits for its batch to fill.
            cron: also enqueue the task on a schedule: five fields, or @hourly, @daily, @weekly, @monthly, @yearly.
            tz: time zone of `cron`, such as "Europe/Berlin". Default UTC.
            every: instead of `cron`, a period of at least 1 s, counted from 1970 in UTC.
            misfire: missed slots: "once" (default) enqueues the newest, "skip" none later than `grace`, "all" each.
            grace: for "skip", maximum delay of a slot. Default 1 minute.
            catch_up: for "all", maximum number of slots to enqueue, the newest. Default 100.
            overlap: "allow" (default), or "skip" a slot while the schedule's last job has not ended.

        Raises ConfigError, with a suggestion for an unknown option.
        """
        register = task_decorator(self, batch, linger, options)
        return register if function is None else register(function)

    @overload
    def remote_task(self, name: str, *, queue: str | None = ..., returns: type[R]) -> RemoteTask[R]: ...
    @overload
    def remote_task(self, name: str, *, queue: str | None = ...) -> RemoteTask[Any]: ...

    def remote_task(self, name: str, *, queue: str | None = None, returns: Any = Any) -> RemoteTask[Any]:
        """Return a task whose code lives elsewhere: `lw.remote_task("other.task", queue="mail").enqueue(42)`.

        Workers and producers of other apps with the same server and prefix announce their tasks: calls are checked
        against the announced parameters, and get the task's retries, priority, key, group, unique name, expiry and
        tags. Sends nothing yet. A task of this app is that task.

        Args:
            name: the task's name, or an alias.
            queue: the queue of its jobs. Default: the queue that its app has announced.
            returns: the type of `job.result()`. Default: what JSON has.

        Raises ConfigError.
        """
        checked(name, "a task's name")
        if queue is not None:
            whole_queue(queue, "a task's queue")
        if returns is not Any:
            Signature(stand_in(name, (), {}, returns), task=name).check_types(result=True)
        return RemoteTask(self.runtime, self._announced_tasks, name, queue, returns)

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

    def job(self, id: str, queue: str | None = None) -> Job[Any]:
        """Return the handle of an existing job. `task.job(id)` also has the type of the result.

        Args:
            id: the job's id.
            queue: the queue of the job; None (default): search the queues of the app's tasks and "default", then all
                others on the server. A job that was enqueued with a stock or a lock, or by a flow, is in the queue of
                that object.
        """
        return self._jobs.handle(id, queue)

    def jobs(
        self,
        queue: str | None = None,
        *,
        limit: int = 50,
        after: str | None = None,
        newest: bool = True,
        budget: int = 1000,
        **matching: Unpack[JobFilter],
    ) -> JobPage:
        """Read up to `limit` jobs that match (see JobFilter): running, ready, scheduled, blocked, ended, in this order.

        The newest come first; of the scheduled ones, the next due. Jobs that change state during the search may be
        missed, or appear twice. Raises ConfigError.

        Args:
            queue: the name of a queue, or of a partition; None (default): all queues on the server.
            limit: maximum number of jobs per page, at most 1,000. Default 50. Iterating over the page also yields the
                jobs of all following pages.
            after: the `next` of the previous page.
            newest: False for the reverse order.
            budget: about the maximum number of records read for the page; ten ids count as one record. Default 1,000.
                If the page is empty, continue after `next`.
        """
        return self.runtime.run(self._jobs.pages(queue, limit, after, newest, budget, matching))

    async def ajobs(
        self,
        queue: str | None = None,
        *,
        limit: int = 50,
        after: str | None = None,
        newest: bool = True,
        budget: int = 1000,
        **matching: Unpack[JobFilter],
    ) -> JobPage:
        """Async version of `jobs`."""
        return await self.runtime.arun(self._jobs.pages(queue, limit, after, newest, budget, matching))

    @overload
    def gather(
        self,
        jobs: Iterable[Job[R]],
        *,
        timeout: Duration | None = ...,
        return_exceptions: Literal[False] = ...,
        progress: bool = ...,
    ) -> list[R]: ...
    @overload
    def gather(
        self,
        jobs: Iterable[Job[R]],
        *,
        timeout: Duration | None = ...,
        return_exceptions: bool,
        progress: bool = ...,
    ) -> list[R | Exception]: ...

    def gather(
        self,
        jobs: Iterable[Job[Any]],
        *,
        timeout: Duration | None = None,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> list[Any]:
        """Wait for all jobs and return their results in the order of `jobs`, many in one round trip.

        Args:
            jobs: jobs of any queues; one may be there more than once.
            timeout: maximum time until all have ended, else ResultTimeout. Default None: no limit.
            return_exceptions: return errors in place of results, also ResultTimeout. Default False: raise the error of
                the first job that fails, as `job.result()` does; the other jobs still run.
            progress: show a progress bar on standard error, in a terminal or a notebook. Default False.
        """
        return gather(jobs, timeout, return_exceptions=return_exceptions, progress=progress)

    @overload
    async def agather(
        self,
        jobs: Iterable[Job[R]],
        *,
        timeout: Duration | None = ...,
        return_exceptions: Literal[False] = ...,
        progress: bool = ...,
    ) -> list[R]: ...
    @overload
    async def agather(
        self,
        jobs: Iterable[Job[R]],
        *,
        timeout: Duration | None = ...,
        return_exceptions: bool,
        progress: bool = ...,
    ) -> list[R | Exception]: ...

    async def agather(
        self,
        jobs: Iterable[Job[Any]],
        *,
        timeout: Duration | None = None,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> list[Any]:
        """Async version of `gather`."""
        return await agather(jobs, timeout, return_exceptions=return_exceptions, progress=progress)

    def completed(
        self, jobs: Iterable[Job[R]], *, timeout: Duration | None = None, progress: bool = False
    ) -> Iterator[Job[R]]:
        """Yield each job when it ends. Jobs that ended before the call come first.

        The next `job.result()` needs no call. Raises ResultTimeout if they have not all ended within `timeout` of the
        first step. `progress`: show a progress bar, as `gather` does.
        """
        return completed(jobs, timeout, progress=progress)

    def acompleted(
        self, jobs: Iterable[Job[R]], *, timeout: Duration | None = None, progress: bool = False
    ) -> AsyncIterator[Job[R]]:
        """Async version of `completed`: `async for job in lw.acompleted(jobs)`."""
        return acompleted(jobs, timeout, progress=progress)

    def cancel_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> BulkChange:
        """Cancel up to `limit` waiting or running jobs that match (see JobFilter); returns the number.

        Cancels each job with a separate call, so it does not block the server. Calls `progress` with the current number
        of cancelled jobs and of searched records. If it is interrupted, call it again. Raises ConfigError.

        Compares each job's whole record with the filters. The result's `undecided` is the number of unchanged jobs that
        may match: history has only the beginning of their records, which does not decide it.
        """
        return self.runtime.run(self._jobs.change("cancel", queue, limit, progress, matching))

    async def acancel_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> BulkChange:
        """Async version of `cancel_jobs`."""
        return await self.runtime.arun(self._jobs.change("cancel", queue, limit, progress, matching))

    def retry_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> BulkChange:
        """Run up to `limit` matching dead, cancelled and expired jobs again; see `cancel_jobs`."""
        return self.runtime.run(self._jobs.change("retry", queue, limit, progress, matching))

    async def aretry_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> BulkChange:
        """Async version of `retry_jobs`."""
        return await self.runtime.arun(self._jobs.change("retry", queue, limit, progress, matching))

    def delete_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> BulkChange:
        """Delete up to `limit` matching jobs that do not run, also from history; see `cancel_jobs`."""
        return self.runtime.run(self._jobs.change("delete", queue, limit, progress, matching))

    async def adelete_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> BulkChange:
        """Async version of `delete_jobs`."""
        return await self.runtime.arun(self._jobs.change("delete", queue, limit, progress, matching))

    @overload
    def flow(self, *, on_failure: Policy = "fail") -> Flow: ...
    @overload
    def flow(self, *, id: str, queue: str = "default") -> FlowRun: ...

    def flow(self, *, on_failure: Policy = "fail", id: str | None = None, queue: str = "default") -> Flow | FlowRun:
        """Create an empty flow, or with `id` return the handle of an enqueued one.

        `on_failure` ("fail", "ignore" or "compensate") is the default policy of its jobs: see `Flow.add`. `id`, of
        the flow or of one of its jobs, and `queue` select an enqueued flow: see the attributes of its `FlowRun`.
        """
        if id is None:
            return Flow(self.runtime, self.config, self.registry.context, on_failure)
        return self._flows.run(id, queue)

    def flows(self, queue: str | None = None, *, limit: int = 50, budget: int = 100_000) -> FlowPage:
        """List the newest `limit` flows of a queue, or of all queues on the server.

        Flows have no index, so it reads up to `budget` stored entries of each queue, a thousand at a time.
        """
        return self.runtime.run(self._flows.page(queue, limit, budget))

    async def aflows(self, queue: str | None = None, *, limit: int = 50, budget: int = 100_000) -> FlowPage:
        """Async version of `flows`."""
        return await self.runtime.arun(self._flows.page(queue, limit, budget))

    def chain(self, first: ResultCall[Any], *steps: Next[Any, Any], on_failure: Policy = "fail") -> Flow:
        """A flow of calls that each wait for the previous one: see `Flow.chain`. Its result is the last one's."""
        flow = self.flow(on_failure=on_failure)
        return flow.returning(flow.chain(first, *steps))

    def group(self, calls: Iterable[ResultCall[Any]], *, on_failure: Policy = "fail") -> Flow:
        """A flow of independent calls; its result is the list of their results, [] without calls."""
        flow = self.flow(on_failure=on_failure)
        return flow.returning(flow.group(calls))

    def chord(self, calls: Iterable[ResultCall[Any]], callback: Next[Any, Any], *, on_failure: Policy = "fail") -> Flow:
        """A flow of calls, and a job that gets the list of their results; its result is the result of that job."""
        flow = self.flow(on_failure=on_failure)
        return flow.returning(flow.chord(calls, callback))

    @overload
    def schedule(self, call: TaskCall, /, *, name: str, **options: Unpack[ScheduleSettings]) -> Schedule: ...
    @overload
    def schedule(self, name: str, /, *, queue: str = "default") -> Schedule: ...

    def schedule(self, what: TaskCall | str, /, **options: Any) -> Schedule:
        """Enqueue a call, such as `send.call(42)`, on a schedule: `cron="0 9 * * mon-fri", tz=...` or `every="10m"`.

        Each slot is enqueued once in the whole cluster, by the first worker of the queue that has this line in its
        code. For the options see `cron` to `overlap` of `lw.task`. With the name of a schedule instead of a
        call, return the handle of a schedule that was declared or created elsewhere; a task's own schedule has the
        task's name. Outside of workers, `create_schedule` makes a schedule at run time. Raises ConfigError.
        """
        if isinstance(what, TaskCall):
            return self._schedules.declare(what, options)
        return self._schedules.find(what, options)

    def create_schedule(self, call: TaskCall, /, *, name: str, **options: Unpack[CreatedScheduleSettings]) -> Schedule:
        """Store a schedule on the server: `create_schedule(send.call(42), name="evening-mail:42", cron="30 18 * * *")`.

        Workers of the queue fire it, and need no such line in their code. It stays until `delete` of its handle. A
        second call with the same name changes it, and keeps its pause and counters. Slots of a new `cron`, `every` or
        `at` begin now.

        Args:
            call: the call of a task to enqueue at each slot.
            name: unique among the schedules of the call's queue, also those in code.
            options: `cron` to `overlap` of `lw.task`, or `at`: one moment, a datetime with a time zone, after which the
                schedule is deleted.

        Raises ConfigError, also if code declares a schedule of that name.
        """
        return self.runtime.run(self._schedules.create(call, {"name": name, **options}))

    async def acreate_schedule(
        self, call: TaskCall, /, *, name: str, **options: Unpack[CreatedScheduleSettings]
    ) -> Schedule:
        """Async version of `create_schedule`."""
        return await self.runtime.arun(self._schedules.create(call, {"name": name, **options}))

    def schedules(self, queue: str | None = None, *, count: int = 1, limit: int | None = None) -> list[ScheduleStatus]:
        """List the schedules of running workers and of `create_schedule`, each with its next `count` slots.

        `queue` selects one queue; without it, all queues of this app's tasks. `limit` reads only the first schedules of
        each queue, or partition, by name.
        """
        return self.runtime.run(self._schedules.statuses(queue, count, limit))

    async def aschedules(
        self, queue: str | None = None, *, count: int = 1, limit: int | None = None
    ) -> list[ScheduleStatus]:
        """Async version of `schedules`."""
        return await self.runtime.arun(self._schedules.statuses(queue, count, limit))

    def metrics(self, queue: str | None = None, task: str | None = None, *, span: Span = "1h") -> MetricSeries:
        """Counts and times of jobs by minute ("15m", "1h") or by hour ("24h", "7d"), over all workers and partitions.

        Args:
            queue: the queue, or one partition as "mail/0"; None (default): all queues of the server.
            task: the name of the task; None (default): all tasks.
            span: how far back: "15m", "1h" (default), "24h" or "7d".
        """
        return self.runtime.run(metrics.series(self.config.prefix, queue, task, span))

    async def ametrics(self, queue: str | None = None, task: str | None = None, *, span: Span = "1h") -> MetricSeries:
        """Async version of `metrics`."""
        return await self.runtime.arun(metrics.series(self.config.prefix, queue, task, span))

    def task_metrics(self, *, span: Span = "1h") -> dict[tuple[str, str], MetricPoint]:
        """Counts and times of the whole span by queue and task, to find slow, failing and expensive tasks.

        A queue counts 200 tasks by name, and all others as "(other)". `span` is the same as in `metrics`.
        """
        return self.runtime.run(metrics.by_task(self.config.prefix, span))

    async def atask_metrics(self, *, span: Span = "1h") -> dict[tuple[str, str], MetricPoint]:
        """Async version of `task_metrics`."""
        return await self.runtime.arun(metrics.by_task(self.config.prefix, span))

    def queue_ages(self) -> dict[str, float | None]:
        """For each queue, return how many seconds its oldest ready job has waited; 0 if no job is ready.

        The age of jobs with a key or a group is exact. That of other jobs is estimated from their ids or, with their
        callers' own ids, from their records. It is None if ready jobs have no time, or if more than 10,000 keys and
        groups have waiting jobs.
        """
        return metrics.known_ages(self.runtime.run(metrics.queue_ages(self.config.prefix)))

    async def aqueue_ages(self) -> dict[str, float | None]:
        """Async version of `queue_ages`."""
        return metrics.known_ages(await self.runtime.arun(metrics.queue_ages(self.config.prefix)))

    def workers(self) -> list[Worker]:
        """The workers of the last hour, including lost ones."""
        return self.runtime.run(read_workers(self.config.prefix))

    async def aworkers(self) -> list[Worker]:
        """Async version of `workers`."""
        return await self.runtime.arun(read_workers(self.config.prefix))

    @overload
    def worker(self, name: str) -> WorkerHandle: ...
    @overload
    def worker(
        self,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int = 100,
        lease: Duration = 15,
        grace: Duration = 30,
    ) -> EmbeddedWorker: ...

    def worker(
        self,
        name: str | None = None,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int = 100,
        lease: Duration = 15,
        grace: Duration = 30,
    ) -> WorkerHandle | EmbeddedWorker:
        """The handle of a worker (`quiet`, `resume`, `stop`), or without a name a worker to run in this process.

        Args:
            name: the name of a running worker in `lw.workers()`.
            queues: the queues, or partitions, to serve in this order. Default: all queues of the app's tasks, in turn.
            concurrency: maximum number of jobs that run at the same time. Default 100.
            lease: time after a crash of this machine until other workers take over its jobs. Default 15 s.
            grace: time that running jobs may continue after `stop`. Default 30 s.

        Raises ConfigError.
        """
        if name is not None:
            return WorkerHandle(self.runtime, name)
        worker: EmbeddedWorker = import_module("lockwork.worker.embedded").embedded_worker(
            self, queues, concurrency, lease, grace
        )
        return worker

    def apps(self) -> list[App]:
        """The apps that ran a worker or enqueued a job in the last 30 days, with tasks, partitions and schedules.

        During a deployment, and a day after it, an app is there once for each of its versions.
        """
        return self.runtime.run(read_apps(self.config.prefix))

    async def aapps(self) -> list[App]:
        """Async version of `apps`."""
        return await self.runtime.arun(read_apps(self.config.prefix))
