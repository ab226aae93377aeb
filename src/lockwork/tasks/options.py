"""The options of tasks and of single jobs: the types for users, and the checked values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from inspect import get_annotations
from typing import Literal, TypedDict

from msgspec import field
from msgspec.structs import replace

from lockwork.backoff import Backoff
from lockwork.config import check_names
from lockwork.durations import Duration
from lockwork.errors import ConfigError
from lockwork.foreign_words import TASK_OPTIONS
from lockwork.jobs import options as job_options
from lockwork.jobs.options import ErrorClasses, RunOptions
from lockwork.protocol.keys import checked, whole_queue
from lockwork.protocol.queue.priority import NORMAL, Priority, digit, is_number
from lockwork.protocol.queue.task_limits import TaskLimits
from lockwork.tasks import limits as task_limits
from lockwork.tasks.batch import BatchSettings
from lockwork.tasks.call import Callback, Callbacks
from lockwork.tasks.header_encoder import JobGrouping
from lockwork.tasks.limits import TaskLimitSettings
from lockwork.tasks.own_id import own_id_option
from lockwork.tasks.unique import OnDuplicate, Unique
from lockwork.validation import yes_or_no


class TaskSettings(TaskLimitSettings, total=False):
    """The options of `lw.task`; each is optional."""

    name: str
    """The task's name in jobs; the function's name unless given."""
    aliases: Sequence[str]
    """Former names: workers run jobs that were enqueued under them, too."""
    queue: str
    """The queue of its jobs; "default" unless given."""
    other_queues: Sequence[str]
    """Other queues that its jobs are often in: a worker serves them, and prepares the task, unless told otherwise."""
    retries: int
    """Maximum retries of a failed job; default 3. The death of its worker is not a failure."""
    backoff: Backoff
    """Pause before the first retry, 1 s unless given; it doubles each time, and half of it is jitter. Or an
    `Exponential`, a list of pauses, whose last one repeats, or a function of the attempt that failed."""
    retry_on: ErrorClasses | None
    """Retry only after these exceptions and their subclasses; None: after all."""
    give_up_on: ErrorClasses
    """Never retry after these."""
    max_deliveries: int | None
    """Maximum number of starts that fail, or whose process dies or is stopped; with 1, such a start is the last.
    `retries` still limits failures. A snoozed start does not count. Unless given, `retries` limits failures, stopped
    starts do not count, and 3 deaths of a process that ran only this job make it dead."""
    expires: Duration | datetime | None
    """A job that has not started by then ends as expired."""
    retry_until: Duration | datetime | None
    """No attempt begins after this; a job whose next attempt would, and that has not succeeded, is dead. `retries`
    still limits the number of retries. A duration counts from the enqueue."""
    tags: Sequence[str]
    """Labels of the job, for people and tools."""
    on_commit: bool | str
    """True: an enqueue inside a database transaction waits for its commit, and is void after a rollback; or the name
    of the database. For integrations that know the database, such as Django."""
    result_ttl: Duration | None
    """Time that the result is stored; the app's `result_ttl` unless given."""
    timeout: Duration | None
    """Time limit of one attempt; then an `async def` is cancelled, a thread interrupted, and the attempt failed."""
    hard_timeout: Duration | None
    """Time limit of one attempt; then the process that runs it is killed."""
    executor: Literal["process"] | None
    """"process": each of its jobs runs alone in a process; unless given, `async def` runs on the worker's event loop,
    and `def` in a thread."""
    priority: Priority
    """"high" before "normal" before "low", strictly. In a queue of the app's `ten_priorities` also a number, from 0,
    which is "high", over 5, "normal", to 9, "low"."""
    keep_result: bool
    """Store results for `job.result()`; True unless given."""
    hide_arguments: bool
    """The command line and the dashboard show no arguments of its jobs; False unless given."""
    key: str | None
    """Jobs with the same key run one at a time, in order; "order:{order_id}" is filled from the call's arguments."""
    group: str | None
    """Groups take turns, regardless of their numbers of jobs; "tenant:{tenant}" is filled from the call's arguments."""
    group_concurrency: int | None
    """Maximum number of jobs of one group that run at once."""
    group_rate: str | None
    """Maximum number of jobs of one group that start per period, such as "10/s"."""
    replicas: int
    """Number of replicas that must have a job before its enqueue returns, else JobNotReplicated; 0 unless given."""
    unique: str | bool | None
    """While a job has this name, another is not enqueued; "report:{user_id}" is filled from the call's arguments, True
    makes a name of all arguments. Tasks do not share names. See docs/unique.md."""
    unique_until: Literal["start", "done"] | Duration
    """End of the name's use: "done" (unless given) when its job has ended, "start" when it starts, or a time such
    as "10m" from the call on. With `replace` or `debounce`, "start" unless given."""
    on_duplicate: OnDuplicate
    """Effect of a call while a waiting job has the name: "keep" (unless given) nothing, "replace" gives that job the
    new call's arguments."""
    debounce: Duration
    """Run the last call when no other call has come for this long."""
    debounce_max: Duration
    """Run the job at most this long after the first call."""


class CallSettings(TypedDict, total=False):
    """The options of `task.options`, for single jobs."""

    delay: Duration
    """Delay before the job may run."""
    at: datetime
    """Earliest start: a datetime with a time zone."""
    queue: str
    """The queue of the job; any worker of that queue that has the task runs it."""
    id: str | None
    """The caller's own id of the job, which gets the id ":" and this text; "order-{order_id}" is filled from the call's
    arguments. While a job has the id, another is not enqueued. See docs/own-ids.md."""
    expires: Duration | datetime | None
    """A job that has not started by then ends as expired."""
    retry_until: Duration | datetime | None
    """No attempt begins after this."""
    priority: Priority
    """Replaces the task's priority; the options below replace the task's, too. `backoff` cannot be a function here."""
    retries: int
    backoff: Backoff
    retry_on: ErrorClasses | None
    give_up_on: ErrorClasses
    max_deliveries: int | None
    timeout: Duration | None
    hard_timeout: Duration | None
    tags: Sequence[str]
    on_commit: bool | str
    result_ttl: Duration | None
    key: str | None
    group: str | None
    """The task's groups have the task's limits."""
    replicas: int
    unique: str | bool | None
    unique_until: Literal["start", "done"] | Duration
    on_duplicate: OnDuplicate
    debounce: Duration
    debounce_max: Duration
    then: Callback | Sequence[Callback] | None
    """Run this when the job has succeeded: a call, a task or function that gets the result, or a list. The job and
    these become a flow; see docs/flows.md."""
    on_error: Callback | Sequence[Callback] | None
    """Run this when the job is dead: a call, a task or function that gets the error, or a list."""


_OF_THE_CLOCK = ("cron", "tz", "every", "misfire", "grace", "catch_up", "overlap")
"""The options of lockwork.schedules, which this module cannot import."""
_OF_TASKS = (*get_annotations(TaskSettings), *get_annotations(BatchSettings), *_OF_THE_CLOCK)


class TaskOptions(RunOptions, frozen=True):
    """Options of a task's jobs; durations in seconds."""

    queue: str = "default"
    expires_ms: int | None = None
    priority: int = NORMAL
    """The digit in the header."""
    numbered: bool = False
    """True if the priority was given as a number."""
    keep_result: bool = True
    grouping: JobGrouping = field(default_factory=JobGrouping)
    in_process: bool = False
    replicas: int = 0
    unique: Unique | None = None
    hide_arguments: bool = False
    aliases: tuple[str, ...] = ()
    other_queues: tuple[str, ...] = ()
    own_id: str | None = None
    """The caller's own id; may have placeholders for the call's arguments."""
    on_commit: bool | str | None = None
    """None: the app's default."""
    limits: TaskLimits = TaskLimits()
    """Limits over all workers."""
    callbacks: Callbacks = Callbacks()

    @classmethod
    def read(cls, given: TaskSettings) -> TaskOptions:
        """Check the values of a task's options; raises ConfigError."""
        options = cls(
            queue=whole_queue(given.get("queue", "default"), "a task's queue"),
            expires_ms=job_options.limit(given.get("expires"), "expires"),
            priority=digit(given.get("priority", "normal")),
            numbered=is_number(given.get("priority")),
            keep_result=yes_or_no(given.get("keep_result", True), "keep_result"),
            grouping=JobGrouping.read(
                given.get("key"), given.get("group"), given.get("group_concurrency"), given.get("group_rate")
            ),
            in_process=_in_process(given.get("executor")),
            replicas=job_options.replicas(given),
            unique=Unique.read(given),
            hide_arguments=yes_or_no(given.get("hide_arguments", False), "hide_arguments"),
            aliases=_aliases(given.get("aliases", ())),
            other_queues=_other_queues(given.get("other_queues", ())),
            on_commit=_on_commit(given["on_commit"]) if "on_commit" in given else None,
            limits=task_limits.read(given),
        )
        return job_options.read(given, options)

    def changed(self, changes: CallSettings) -> TaskOptions:
        """Return these options with the changes for single jobs; raises ConfigError."""
        of_tasks = "set it for the task, @lw.task({name}=...)"
        check_names(changes, CallSettings, "a job has no option", (_OF_TASKS, of_tasks), TASK_OPTIONS)
        options = job_options.read(changes, self)
        if "queue" in changes:
            queue = whole_queue(changes["queue"], "the queue of a job")
            options = replace(options, queue=queue, other_queues=self.queues)
        if "id" in changes:
            options = replace(options, own_id=None if changes["id"] is None else own_id_option(changes["id"]))
        if "priority" in changes:
            options = replace(options, priority=digit(changes["priority"]), numbered=is_number(changes["priority"]))
        if "key" in changes or "group" in changes:
            grouping = options.grouping
            checked = JobGrouping.read(
                changes.get("key", grouping.key), changes.get("group", grouping.group), None, None
            )
            options = replace(options, grouping=replace(checked, limits=grouping.limits))
        if "expires" in changes:
            options = replace(options, expires_ms=job_options.limit(changes["expires"], "expires"))
        if "on_commit" in changes:
            options = replace(options, on_commit=_on_commit(changes["on_commit"]))
        if "replicas" in changes:
            options = replace(options, replicas=job_options.replicas(changes))
        if "then" in changes or "on_error" in changes:
            options = replace(options, callbacks=options.callbacks.changed(changes))
        return replace(options, unique=Unique.read(changes, options.unique))

    @property
    def named(self) -> bool:
        """True if a call may return an existing job: the job is unique, or has the caller's own id."""
        return self.unique is not None or self.own_id is not None

    @property
    def queues(self) -> tuple[str, ...]:
        """All queues that the task's jobs may be in, the present one first."""
        return tuple(dict.fromkeys((self.queue, *self.other_queues)))

    def check_joined(self, task: str) -> None:
        """Raise ConfigError when a job with these options cannot be enqueued together with others."""
        if self.unique is not None:
            raise ConfigError(
                f"task {task!r}: a job that is enqueued by a schedule, or with something else, cannot be unique: "
                "call task.options(unique=None)"
            )
        if self.own_id is not None:
            raise ConfigError(
                f"task {task!r}: a job that is enqueued with something else gets its id from there, so it cannot have "
                "its own: call task.options(id=None)"
            )
        if self.expires_ms is not None:
            raise ConfigError(
                f"task {task!r}: a job that is enqueued with something else cannot expire: call "
                "task.options(expires=None)"
            )
        if self.replicas:
            raise ConfigError(
                f"task {task!r}: a job that is enqueued with something else does not wait for replicas; "
                "use options(replicas=0)"
            )


def _aliases(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f'aliases must be a list of former names, such as ["old.name"], not {names!r:.60}')
    return tuple(dict.fromkeys(checked(name, "an alias") for name in names))


def _other_queues(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f'other_queues must be a list of queues, such as ["urgent"], not {names!r:.60}')
    return tuple(dict.fromkeys(whole_queue(name, "a queue of other_queues") for name in names))


def _on_commit(using: object) -> bool | str:
    if isinstance(using, bool) or (isinstance(using, str) and using):
        return using
    raise ConfigError(f"on_commit must be True, False or the name of a database, not {using!r:.60}")


def _in_process(executor: object) -> bool:
    if executor not in (None, "process"):
        raise ConfigError(
            f'executor must be "process", not {executor!r}: without one, async def runs on the loop, def in a thread'
        )
    return executor is not None
