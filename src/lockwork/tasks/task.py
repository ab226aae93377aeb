"""Tasks: functions that can be enqueued."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from copy import copy
from functools import partial, update_wrapper
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from lockwork import codecs
from lockwork.config import Config
from lockwork.errors import ConfigError, JobNotReplicated, QueueFull
from lockwork.hooks import Enqueued
from lockwork.ids import new_id, new_ids
from lockwork.injection import Injection
from lockwork.injection.calling import call_alone
from lockwork.jobs import options as job_options
from lockwork.jobs.found import FoundJob
from lockwork.jobs.job import Job, Origin
from lockwork.jobs.many import AEnqueuesMany, EnqueuesMany
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import checked
from lockwork.protocol.queues import enqueue as protocol
from lockwork.protocol.queues.enqueue import NewJob
from lockwork.protocol.queues.record_header import body
from lockwork.protocol.queues.unique import Arrival, push_unique
from lockwork.tasks.batch import Batching
from lockwork.tasks.call import ResultCall
from lockwork.tasks.context import AppContext
from lockwork.tasks.enqueue_batcher import EnqueueBatcher
from lockwork.tasks.header_encoder import HeaderEncoder
from lockwork.tasks.on_commit import OnCommit
from lockwork.tasks.options import CallSettings, TaskOptions
from lockwork.tasks.pending_jobs import Enqueuer
from lockwork.tasks.result_refs import Extracted, extract, for_names

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
Function = Callable[P, R] | Callable[P, Coroutine[Any, Any, R]]

_ENQUEUE, _CALL = "{task}.enqueue(...), or await {task}.aenqueue(...)", "{task}.call(...)"
_LATER = '{task}.options(delay="10m").enqueue(...)'
_ELSEWHERE = {
    **dict.fromkeys(("delay", "send", "kiq", "defer", "defer_async", "perform_async", "dispatch", "apply"), _ENQUEUE),
    **dict.fromkeys(("apply_async", "send_with_options", "perform_in", "schedule", "configure"), _LATER),
    **dict.fromkeys(("s", "si", "subtask", "message", "kicker"), _CALL),
    **dict.fromkeys(("map", "starmap", "chunks", "batch_defer", "perform_bulk"), "{task}.enqueue_many([(...), (...)])"),
}
"""How others call what we have by another name."""


class Task(EnqueuesMany, AEnqueuesMany, Generic[P, R, C]):
    """A registered function: call it to run it here, `enqueue` it to run it in a worker."""

    batching: Batching | None = None
    """How its jobs are put together, when one call runs many."""

    def __init__(
        self,
        batcher: EnqueueBatcher,
        config: Config,
        name: str,
        function: Callable[P, C],
        options: TaskOptions,
        context: AppContext,
    ) -> None:
        self.name = name
        self.function = function
        self.options_in_force: TaskOptions = options
        self.is_async: bool = inspect.iscoroutinefunction(function)
        self.injection: Injection = Injection(function, context.overrides, is_async=self.is_async)
        self.injected: bool = bool(self.injection.names)
        self.plain: bool = self.is_async and not (self.injected or options.in_process or self.batching)
        """Whether a worker has nothing to do for it but to call it, within its time limit."""
        self._shape, self._without = self._wire()
        self.signature: codecs.Signature = codecs.Signature(self._shape, self._without)
        self.signature.check_types(name, result=options.keep_result)
        self._context = context
        self._batcher = batcher
        self._runtime = batcher.runtime
        self._config = config
        self._keys = batcher.keys
        self._origin = Origin(self._runtime, self._keys, self.signature.returns, context.errors)
        self._take(options)
        self._extra = job_options.sent({}, options)
        self._called = f"the arguments of task {name!r}"
        self._asked_ms = 0
        update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(*args, **kwargs)

    def options(self, **changes: Unpack[CallSettings]) -> Task[P, R, C]:
        """Return the task with other options for single jobs; see CallSettings. Raises ConfigError."""
        options = self.options_in_force.changed(changes)
        task: Task[P, R, C] = copy(self)
        task._take(options)
        due = job_options.moment(changes)
        task._asked_ms = self._asked_ms if due is None else due
        job_options.check_order(task._asked_ms, options.expires_ms)
        if task._delay_ms and task._asked_ms:
            raise ConfigError(
                f"task {self.name!r}: a debounced job waits for its debounce; it can have no delay, and no at"
            )
        task._delay_ms = task._delay_ms or task._asked_ms
        task._extra = job_options.sent(changes, options, self._extra)
        return task

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Enqueue a call; it will run in a worker at least once, unless the server loses its data.

        A unique task may return a job that was there before: `job.new` says so. Raises TypeError if the arguments do
        not fit, ConfigError, PayloadTooLarge, QueueFull, ServerUnavailable, or, with `replicas`, JobNotReplicated,
        although it is enqueued.
        """
        return self._runtime.run(self._push([self._new(args, kwargs)]))[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """The same for an asyncio task."""
        job = self._new(args, kwargs)
        options = self.options_in_force
        if options.unique is not None or options.expires_ms is not None:
            return (await self._runtime.arun(self._push([job])))[0]
        return await self._gathered(job)

    def _enqueue_all(self, arguments: Iterable[Any]) -> list[Job[R]]:
        return self._runtime.run(self._push(self._many(arguments)))

    async def _aenqueue_all(self, arguments: Iterable[Any]) -> list[Job[R]]:
        return await self._runtime.arun(self._push(self._many(arguments)))

    def job(self, id: str) -> Job[R]:
        """A job of this task that was enqueued elsewhere, found again by its id; nothing is sent yet."""
        return FoundJob(self._origins(), checked(id, "a job's id"))

    def _origins(self) -> Sequence[Origin]:
        """Where its jobs may be."""
        return [self._origin]

    def on_commit(self, where: object) -> OnCommit[P, R]:
        """Return the task so that what it enqueues waits for the commit of a database transaction.

        `where` is a session or connection of SQLAlchemy, also an asyncio one, or a function to which a callback is
        given, such as Django's `transaction.on_commit`. Nothing is enqueued when the transaction, or the savepoint in
        which this is called, is rolled back. A process that dies between commit and enqueue loses the job.
        """
        return OnCommit(where, Enqueuer(self._runtime, self._push), self._new, self._many, self._handle)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> ResultCall[R]:
        """Return the call for somebody else to enqueue; its job gets the id of what it is enqueued with.

        In a flow, results of other jobs may stand among the arguments. Raises ConfigError for a call that would expire,
        is unique, or waits for replicas: that is for jobs enqueued by themselves.
        """
        self.options_in_force.check_joined(self.name)
        taken = extract(args, kwargs)
        options = self.options_in_force
        return ResultCall(
            options.queue,
            self._record(args, kwargs, taken),
            self._delay_ms,
            self.name,
            self.signature.returns,
            options.keep_result,
            tuple(taken.promises) if taken else (),
        )

    if not TYPE_CHECKING:  # to type checkers, none of these names exists

        def __getattr__(self, name: str) -> Any:
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in _ELSEWHERE:
                said += ": use " + _ELSEWHERE[name].format(task=getattr(self.function, "__name__", self.name))
            raise AttributeError(said)

    def _wire(self) -> tuple[Callable[..., Any], frozenset[str]]:
        """The function as its jobs see it, and which of its parameters they do not give."""
        return self.function, self.injection.names

    def _take(self, options: TaskOptions) -> None:
        """Be a task with these options."""
        unique, mark = options.unique, None
        if unique is not None:
            if options.replicas:
                raise ConfigError(f"task {self.name!r}: a unique job does not wait for replicas: leave one of them out")
            mark = unique.marking(self.name, self._shape, self._without)
        self.options_in_force = options
        self._heads = HeaderEncoder(self._shape, options.priority, options.budget, options.lines, self._without, mark)
        self._delay_ms = 0 if unique is None else unique.debounce_ms

    def _push(self, jobs: list[NewJob]) -> Protocol[list[Job[R]]]:
        """Enqueue the jobs, and tell the hooks of those that are new, however that ends for them."""
        try:
            handles = yield from self._pushed(jobs)
        except (JobNotReplicated, QueueFull) as error:
            if self.options_in_force.unique is None:  # which of unique ones are new was not said
                full = error if isinstance(error, QueueFull) else error.__cause__
                self._tell(jobs[: full.enqueued] if isinstance(full, QueueFull) else jobs)
            raise
        if self._context.hooks.on_enqueue:
            new = {handle.id for handle in handles if handle.arrival == "new"}
            self._tell([job for job in jobs if job.id in new])
        return handles

    async def _gathered(self, job: NewJob) -> Job[R]:
        """The same for one job, which is not unique and does not expire, together with others of this loop."""
        try:
            await self._batcher.push(job, self.options_in_force.replicas)
        except JobNotReplicated:
            self._tell([job])
            raise
        self._tell([job])
        return self._handle(job.id)

    def _pushed(self, jobs: list[NewJob]) -> Protocol[list[Job[R]]]:
        options = self.options_in_force
        if options.unique is not None:
            arrived = yield from push_unique(self._keys, jobs, options.unique.terms, options.expires_ms)
            return [self._handle(id, arrival) for id, arrival in arrived]
        handles: list[Job[R]] = []
        also = partial(self._add_handles, handles)
        yield from protocol.push(self._keys, jobs, options.replicas, options.expires_ms, also=also)
        return handles

    async def arun(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here, with its dependencies as in a worker, without a server; for tests.

        What is given for an injected parameter is used instead. Hooks, retries and time limits are left out.
        """
        value: R = await call_alone(self.function, self.injection, args, kwargs, is_async=self.is_async)
        return value

    def _tell(self, jobs: Sequence[NewJob]) -> None:
        if not self._context.hooks.on_enqueue:
            return
        queue = self.options_in_force.queue

        def event(job: NewJob) -> Enqueued:
            _, args, *rest = codecs.decode(body(job.record))
            kwargs = rest[0] if rest else {}
            # a moment is negative
            delay = max(0.0, (job.delay_ms if job.delay_ms >= 0 else -job.delay_ms - time.time() * 1000) / 1000)
            return Enqueued(id=job.id, task=self.name, queue=queue, args=args, kwargs=kwargs, delay=delay)

        self._context.hooks.enqueued(map(event, jobs))

    def _new(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        return NewJob(new_id(), self._record(args, kwargs), self._delay_ms)

    def _many(self, arguments: Iterable[tuple[Any, ...]]) -> list[NewJob]:
        record, delay_ms = self._record, self._delay_ms
        records = []
        for args in arguments:
            if not isinstance(args, tuple | list):
                raise TypeError(f"each call is a tuple of arguments, such as (42,), not {args!r:.60}")
            records.append(record(args, {}))
        return [NewJob(id, stored, delay_ms) for id, stored in zip(new_ids(len(records)), records, strict=True)]

    def _record(self, args: Sequence[Any], kwargs: dict[str, Any], taken: Extracted | None = None) -> bytes:
        try:
            self.signature.check(args, kwargs)
        except TypeError as error:
            raise TypeError(f"{error}{self._hint(kwargs)}") from None
        call: tuple[object, ...] = (self.name, args, kwargs) if kwargs else (self.name, args)
        if self._extra:
            call = (self.name, args, kwargs, self._extra)
        if taken:
            optional = sorted({one.number for one in taken.promises if one.may_fail})
            call = (self.name, taken.args, taken.kwargs, self._extra, taken.holes, optional)
        head = self._heads.plain or self._heads.of(*(for_names(args, kwargs) if taken else (args, kwargs)))
        return head + codecs.encode(call, self._called, self._config.max_payload)

    def _hint(self, kwargs: dict[str, Any]) -> str:
        """Where the options go that stand among the arguments."""
        options = get_annotations(CallSettings).keys() & kwargs.keys() - self.signature.names
        if not options:
            return ""
        function = getattr(self, "__name__", self.name)  # a partial has none
        shown = ", ".join(f"{name}=..." for name in sorted(options))
        return f"; what is an option goes before the arguments, {function}.options({shown}).enqueue(...)"

    def _handle(self, id: str, arrival: Arrival = "new") -> Job[R]:
        return Job(self._origin, id, arrival)

    def _add_handles(self, handles: list[Job[R]], jobs: Sequence[NewJob]) -> None:
        origin = self._origin
        handles.extend([Job(origin, job.id) for job in jobs])

    def __repr__(self) -> str:
        return f"<Task {self.name!r} queue={self.options_in_force.queue!r}>"
