"""Tasks: functions that can be enqueued."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import partial, update_wrapper
from itertools import count
from random import randrange
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from lockwork import codecs
from lockwork.config import Config
from lockwork.errors import ConfigError, JobNotReplicated, QueueFull
from lockwork.foreign_words import TASK_METHODS, attribute_error
from lockwork.hooks import Enqueued
from lockwork.injection import Injection
from lockwork.injection.calling import call_alone, call_here
from lockwork.jobs import options as job_options
from lockwork.jobs.current import QueueContext
from lockwork.jobs.fake import as_job
from lockwork.jobs.found import FoundJob
from lockwork.jobs.job import Job, Origin
from lockwork.jobs.many import AEnqueuesMany, EnqueuesMany
from lockwork.partitions import numbered, routing_name
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import checked
from lockwork.protocol.names import stored
from lockwork.protocol.queue.enqueue import NewJob, push
from lockwork.protocol.queue.envelope import Bound
from lockwork.protocol.queue.own_ids import push_own
from lockwork.protocol.queue.record_header import body
from lockwork.protocol.queue.unique import push_unique
from lockwork.runtime.clock import now
from lockwork.runtime.drive import no_running_loop
from lockwork.signatures import Signature
from lockwork.tasks.app_context import AppContext
from lockwork.tasks.batch import Batching, of_one
from lockwork.tasks.call import ResultCall, extract
from lockwork.tasks.enqueue_batcher import EnqueueBatcher
from lockwork.tasks.fingerprint import fingerprint
from lockwork.tasks.job_builder import JobBuilder
from lockwork.tasks.middleware import Outgoing
from lockwork.tasks.on_commit import Enqueuer, OnCommit, PendingJob, deliver
from lockwork.tasks.options import CallSettings, TaskOptions
from lockwork.tasks.placement import Partition, SplitPush, check_one_name, split

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
T = TypeVar("T")


class Task(EnqueuesMany, AEnqueuesMany, Generic[P, R, C]):
    """A registered function: call it to run it here, or `enqueue` it to run it in a worker.

    Its queue has one partition or more. A job's partition is decided by its key, group or unique name; jobs without
    one rotate over the partitions.
    """

    def __init__(
        self,
        batchers: Callable[[str], Sequence[EnqueueBatcher]],
        config: Config,
        name: str,
        function: Callable[P, C],
        options: TaskOptions,
        context: AppContext,
        batching: Batching | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.options_in_force: TaskOptions = options
        self.batching: Batching | None = batching
        """Batch options, if one call of the function runs many jobs."""
        self.is_async: bool = inspect.iscoroutinefunction(function)
        self.injection: Injection = Injection(function, context.overrides, is_async=self.is_async)
        self.injected: bool = bool(self.injection.names)
        self.plain: bool = self.is_async and not (self.injected or options.in_process or batching)
        """True if a worker only calls the function, within its time limit."""
        shape: Callable[..., Any] = function
        injected = self.injection.names
        if batching is not None:
            shape, injected = of_one(function, injected), frozenset()
        self.signature: Signature = Signature(shape, injected, name, hides_arguments=options.hide_arguments)
        self.signature.check_types(result=options.keep_result)
        self._version = ""
        self._context = context
        self._config = config
        self._batchers = batchers
        self._partitions = self._partitions_of(options.queue)
        self._runtime = self._partitions[0].batcher.runtime
        self._turns = count(randrange(len(self._partitions)))  # noqa: S311 - where a process begins is no secret
        self._check_queue(options)
        self._commit = context.commits.wait(options.on_commit)
        self._builder = JobBuilder(name, shape, injected, self.signature, config.max_payload, options)
        update_wrapper(self, function, updated=())

    @property
    def version(self) -> str:
        """A fingerprint of the parameters and their types, and of the ids of the keys that decrypt its calls."""
        if not self._version:
            payloads, queue = self._runtime.payloads, self.options_in_force.queue
            keys = "" if payloads is None else payloads.keys_of(queue)
            self._version = fingerprint(self.function, self.signature.described(), self.injection.names, keys)
        return self._version

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(*args, **kwargs)

    def options(self, **changes: Unpack[CallSettings]) -> Task[P, R, C]:
        """Return the task with other options for single jobs; see CallSettings. Raises ConfigError."""
        if self.batching is not None and "timeout" in changes:
            raise ConfigError(f"batch task {self.name!r}: one call runs many jobs, so only the task can have a timeout")
        options = self.options_in_force.changed(changes)
        task: Task[P, R, C] = copy(self)
        if options.queue != self.options_in_force.queue:
            task._partitions = self._partitions_of(options.queue)
        task._check_queue(options)
        task.options_in_force = options
        task._commit = self._context.commits.wait(options.on_commit)
        task._builder = self._builder.changed(changes, options)
        return self._context.callback_tasks.of(task) if options.callbacks else task

    def tracking(self, fields: dict[str, Any], tracked_ms: int) -> Task[P, R, C]:
        """Return the task with tracked jobs, for an integration with an observer (tasks/observer.py).

        fields: stored beside the options of the jobs. tracked_ms: time that the end of a job is kept.
        """
        task: Task[P, R, C] = copy(self)
        task._builder = self._builder.tracking(fields, tracked_ms)
        return task

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Enqueue a call; it will run in a worker at least once, unless the server loses its data.

        A unique task, or an `id` in use, returns an existing job; then `job.new` is False. Raises TypeError for wrong
        arguments, ConfigError, PayloadTooLarge, QueueFull, ServerUnavailable, or, with `replicas`, JobNotReplicated,
        although the job is enqueued.
        """
        if self._commit is not None and (register := self._commit.find()) is not None:
            return self._put_off_until(register, [self._builder.new(args, kwargs)])[0]
        if self._context.middlewares.around_enqueue:
            with self._sending(1) as outgoing:
                return self._runtime.run(self._push(self._stamped(outgoing, [self._builder.new(args, kwargs)])))[0]
        return self._runtime.run(self._push([self._builder.new(args, kwargs)]))[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Async version of `enqueue`; concurrent calls share round trips."""
        if self._commit is not None and (register := await self._commit.afind()) is not None:
            return (await self._aput_off_until(register, [self._builder.new(args, kwargs)]))[0]
        if self._context.middlewares.around_enqueue:
            with self._sending(1) as outgoing:
                return await self._aenqueue(self._stamped(outgoing, [self._builder.new(args, kwargs)])[0])
        return await self._aenqueue(self._builder.new(args, kwargs))

    async def _aenqueue(self, job: NewJob) -> Job[R]:
        partition = self._partitions[self._where(job)]
        options, plain = self.options_in_force, job
        if options.named or options.numbered or options.expires_ms is not None or self._runtime.replaced:
            return (await self._runtime.arun(self._push_to(partition, [job])))[0]
        if self._runtime.payloads is not None:
            (job,) = self._sealed(partition, [job])
        try:
            await partition.batcher.push(job, options.replicas)
        except JobNotReplicated:
            self._run_hooks(partition, [plain])
            raise
        self._run_hooks(partition, [plain])
        if self._context.announcing.due <= now():
            await self._runtime.arun(self._context.announcing.announce())
        return Job(partition.origin, job.id)

    def _enqueue_all(self, arguments: Iterable[Any]) -> list[Job[R]]:
        if self._commit is not None and (register := self._commit.find()) is not None:
            return self._put_off_until(register, self._builder.many(arguments))
        if self._context.middlewares.around_enqueue:
            jobs = self._builder.many(arguments)
            with self._sending(len(jobs)) as outgoing:
                return self._runtime.run(self._push(self._stamped(outgoing, jobs)))
        return self._runtime.run(self._push(self._builder.many(arguments)))

    async def _aenqueue_all(self, arguments: Iterable[Any]) -> list[Job[R]]:
        if self._commit is not None and (register := await self._commit.afind()) is not None:
            return await self._aput_off_until(register, self._builder.many(arguments))
        if self._context.middlewares.around_enqueue:
            jobs = self._builder.many(arguments)
            with self._sending(len(jobs)) as outgoing:
                return await self._runtime.arun(self._push(self._stamped(outgoing, jobs)))
        return await self._runtime.arun(self._push(self._builder.many(arguments)))

    def job(self, id: str) -> Job[R]:
        """Return the handle of an existing job of this task; it sends nothing yet."""
        others = [name for name in self.options_in_force.queues if name != self.options_in_force.queue]
        partitions = [*self._partitions, *(each for name in others for each in self._partitions_of(name))]
        return FoundJob([partition.origin for partition in partitions], checked(id, "a job's id"))

    def on_commit(self, where: object) -> OnCommit[P, R]:
        """Return a task whose `enqueue` waits for the commit of a database transaction.

        `where` is a session or connection of SQLAlchemy, also an asyncio one, or a function that takes a callback,
        such as Django's `transaction.on_commit`. If the transaction, or the savepoint around the call of `enqueue`, is
        rolled back, nothing is enqueued. A process that dies between commit and enqueue loses the job.
        """
        return OnCommit(where, self._builder.new, self._builder.many, self._put_off_stamped)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> ResultCall[R]:
        """Return the call for a stock, schedule, lock or flow to enqueue; its job gets the id of what enqueues it.

        In a flow, arguments may be results of other jobs. Raises ConfigError for a call that would expire, is unique,
        or waits for replicas: such a job is enqueued alone.
        """
        self.options_in_force.check_joined(self.name)
        extraction = extract(args, kwargs)
        options = self.options_in_force
        return ResultCall(
            options.queue,
            self._builder.record(args, kwargs, extraction),
            self._builder.delay_ms,
            self.name,
            self.signature.returns,
            options.keep_result,
            tuple(extraction.refs) if extraction else (),
            self._stamped_alone,
            options.callbacks,
        )

    if not TYPE_CHECKING:  # type checkers must report these names as unknown

        def __getattr__(self, name: str) -> Any:
            raise attribute_error(
                type(self).__name__, name, TASK_METHODS, getattr(vars(self).get("function"), "__name__", "task")
            )

    @property
    def partition_names(self) -> list[str]:
        """The partitions of its queue, or the queue itself."""
        return [partition.origin.keys.name for partition in self._partitions]

    def _partitions_of(self, queue: str) -> list[Partition]:
        returns, errors = self.signature.returns, self._context.errors
        return [Partition(each, Origin(each.runtime, each.keys, returns, errors)) for each in self._batchers(queue)]

    def _check_queue(self, options: TaskOptions) -> None:
        if options.numbered and options.queue not in self._config.ten_priorities:
            raise ConfigError(
                f"task {self.name!r}: queue {options.queue!r} has the priorities high, normal and low, not numbers: "
                f"use one of these, or Lockwork(ten_priorities=[{options.queue!r}])"
            )
        if len(self._partitions) > 1:
            check_one_name(self.name, options)

    def _where(self, job: NewJob) -> int:
        """The number of the partition that a job goes to."""
        if len(self._partitions) == 1:
            return 0
        if any(self.options_in_force.limits):
            return numbered(stored(self.name), len(self._partitions))  # so that one server counts all jobs
        if self._builder.plain:
            return next(self._turns) % len(self._partitions)
        name = routing_name(job.record) or stored(job.id.removeprefix(":"))  # a job without names has its own id
        return numbered(name, len(self._partitions))

    def _split(self, jobs: Sequence[NewJob]) -> Iterator[tuple[Partition, Sequence[int]]]:
        """Yield each partition that gets some of the jobs, and their positions."""
        plain = self._builder.plain and not any(self.options_in_force.limits)
        for number, positions in split(jobs, len(self._partitions), self._where, plain=plain):
            yield self._partitions[number], positions

    def _push(self, jobs: list[NewJob]) -> Protocol[list[Job[R]]]:
        """Enqueue jobs, each in its partition."""
        if len(self._partitions) == 1:
            return self._push_to(self._partitions[0], jobs)
        if len(jobs) == 1:
            return self._push_to(self._partitions[self._where(jobs[0])], jobs)
        return self._push_split(jobs)

    def _push_split(self, jobs: list[NewJob]) -> Protocol[list[Job[R]]]:
        """Enqueue jobs in several partitions, one after the other."""
        handles: dict[int, Job[R]] = {}
        done = SplitPush(jobs)
        for partition, positions in self._split(jobs):
            some = [jobs[at] for at in positions]
            with done.of(positions):
                partition_jobs = yield from self._push_to(partition, some, wait=done.late is None)
                handles.update(zip(positions, partition_jobs, strict=True))
        done.check()
        return [handles[at] for at in range(len(jobs))]

    def _push_to(self, partition: Partition, jobs: list[NewJob], *, wait: bool = True) -> Protocol[list[Job[R]]]:
        """Enqueue jobs in one partition, and run the hooks for the new ones, even if an error follows.

        `wait`: wait for the replicas, if the options say so.
        """
        options, origin = self.options_in_force, partition.origin
        handles: list[Job[R]] = []
        sealed = jobs if self._runtime.payloads is None else self._sealed(partition, jobs)
        try:
            if options.unique is not None:
                arrived = yield from push_unique(origin.keys, sealed, options.unique.terms, options.expires_ms)
                handles = [Job(origin, id, arrival) for id, arrival in arrived]
            elif options.own_id is not None:
                arrived = yield from push_own(origin.keys, sealed, options.expires_ms)
                handles = [Job(origin, id, arrival) for id, arrival in arrived]
            else:
                replicas = options.replicas if wait else 0
                yield from push(origin.keys, sealed, replicas=replicas, expires_ms=options.expires_ms)
                handles = [Job(origin, job.id) for job in jobs]
        except (JobNotReplicated, QueueFull) as error:
            if not options.named:  # for these, the server did not say which are new
                full = error if isinstance(error, QueueFull) else error.__cause__
                self._run_hooks(partition, jobs[: full.enqueued] if isinstance(full, QueueFull) else jobs)
            raise
        if self._context.hooks.on_enqueue:
            self._run_hooks(partition, [job for job, handle in zip(jobs, handles, strict=True) if handle.new])
        if self._context.announcing.due <= now():
            yield from self._context.announcing.announce()
        return handles

    def _sealed(self, partition: Partition, jobs: list[NewJob]) -> list[NewJob]:
        """Encrypt or sign jobs. A job whose call may get the id of another job is bound to its unique name."""
        payloads, unique, queue = self._runtime.payloads, self.options_in_force.unique, partition.origin.keys.name
        assert payloads is not None
        bound: Bound = "unique" if unique is not None and unique.terms.meaning != "keep" else ""
        return [job._replace(record=payloads.seal_call(queue, job.id, job.record, bound)) for job in jobs]

    def _sending(self, count: int) -> AbstractContextManager[Outgoing]:
        return self._context.middlewares.sending(self.name, self.options_in_force.queue, count)

    def _stamped(self, outgoing: Outgoing, jobs: list[NewJob]) -> list[NewJob]:
        """Return the jobs with the headers of their enqueue; also set `outgoing.ids` for the middlewares."""
        outgoing.ids = tuple(job.id for job in jobs)
        cap, headers = self._config.max_payload, outgoing.headers
        if not headers:
            return jobs
        return [job._replace(record=job_options.with_headers(job.record, headers, cap)) for job in jobs]

    def _stamped_alone(self, job: NewJob) -> NewJob:
        """Return a job, with its headers, for a flow, schedule, lock or stock to enqueue."""
        if not self._context.middlewares.around_enqueue:
            return job
        with self._sending(1) as outgoing:
            return self._stamped(outgoing, [job])[0]

    def _put_off_until(self, register: Callable[[Callable[[], object]], object], jobs: list[NewJob]) -> list[Job[R]]:
        """Enqueue jobs when `register` calls its argument."""
        pending, handles = self._put_off_stamped(jobs)
        register(partial(deliver, pending))
        return handles

    async def _aput_off_until(
        self, register: Callable[[Callable[[], object]], Awaitable[object]], jobs: list[NewJob]
    ) -> list[Job[R]]:
        """Async version of `_put_off_until`."""
        pending, handles = self._put_off_stamped(jobs)
        await register(partial(deliver, pending))
        return handles

    def _put_off_stamped(self, jobs: list[NewJob]) -> tuple[list[PendingJob], list[Job[R]]]:
        """Prepare jobs that are enqueued later, with the headers of this moment."""
        if not self._context.middlewares.around_enqueue:
            return self._put_off(jobs)
        with self._sending(len(jobs)) as outgoing:
            return self._put_off(self._stamped(outgoing, jobs))

    def _put_off(self, jobs: list[NewJob]) -> tuple[list[PendingJob], list[Job[R]]]:
        """Prepare jobs that are enqueued later; their handles know already where they will be."""
        pending: list[PendingJob] = []
        handles: dict[int, Job[R]] = {}
        for partition, positions in self._split(jobs):
            enqueuer = Enqueuer(self._runtime, self._push_to, partition)
            for at in positions:
                pending.append(PendingJob(enqueuer, jobs[at]))
                handles[at] = Job(partition.origin, jobs[at].id)
        return pending, [handles[at] for at in range(len(jobs))]

    def run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here, with its dependencies as in a worker, without a server; for tests.

        An `async def` runs in an event loop of its own. `current_job()` works: see `lockwork.testing.fake_job`. An
        argument for an injected parameter replaces the dependency. No hooks, middlewares, retries or limits. Raises
        BlockingCallError on the thread of a running event loop.
        """
        no_running_loop()
        with self._as_job(args, kwargs):
            value: R = call_here(self.function, self.injection, args, kwargs, is_async=self.is_async)
        return value

    async def arun(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Async version of `run`: an `async def` runs in this event loop, a `def` in a thread."""
        with self._as_job(args, kwargs):
            value: R = await call_alone(self.function, self.injection, args, kwargs, is_async=self.is_async)
        return value

    def _as_job(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AbstractContextManager[None]:
        """Run a call here as a job, or as the jobs of a batch."""
        jobs = None
        if self.batching is not None:
            items = (*args, *(value for name, value in kwargs.items() if name not in self.injection.names))
            jobs = len(items[0]) if items else 0
        return as_job(self.name, self.queue_context, self.options_in_force.tags, jobs)

    def queue_context(self) -> QueueContext:
        """Return the context of the queue for a job that runs here."""
        keys = self._partitions[0].origin.keys
        return QueueContext(self.options_in_force.queue, keys, self._runtime, "", self._config.max_result)

    def _run_hooks(self, partition: Partition, jobs: Sequence[NewJob]) -> None:
        if not self._context.hooks.on_enqueue:
            return
        queue = partition.origin.keys.name

        def event(job: NewJob) -> Enqueued:
            _, args, *rest = codecs.decode(body(job.record))
            kwargs = rest[0] if rest else {}
            # a negative delay is a moment
            delay = max(0.0, (job.delay_ms if job.delay_ms >= 0 else -job.delay_ms - time.time() * 1000) / 1000)
            return Enqueued(id=job.id, task=self.name, queue=queue, args=args, kwargs=kwargs, delay=delay)

        self._context.hooks.enqueued(map(event, jobs))

    def __repr__(self) -> str:
        return f"<Task {self.name!r} queue={self.options_in_force.queue!r}>"


if TYPE_CHECKING:

    class BatchTask(Task[[T], R, C]):
        """A batch task to type checkers: a job has one item, and the function takes the items of many jobs."""

        def __call__(self, items: list[T]) -> C:  # type: ignore[override]  # as the function was defined
            ...

        def options(self, **changes: Unpack[CallSettings]) -> BatchTask[T, R, C]: ...

        def run(self, items: list[T]) -> Any:  # type: ignore[override]  # as the function was defined
            ...

        async def arun(self, items: list[T]) -> Any:  # type: ignore[override]  # as the function was defined
            ...
