"""Workers and apps in their announcements on the server, and the commands for a worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from lockwork.jobs.current import RunnerState
from lockwork.protocol.announcements import announcements
from lockwork.protocol.announcements.announcements import APPS, WORKERS, Announcement, Order
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import base_queue, checked
from lockwork.runtime.runtime import Runtime

WorkerState = Literal["running", "quiet", "stopping", "lost"]

SILENT = 20.0
"""Seconds without an announcement until a worker counts as lost; workers announce themselves every 5 s."""
_LATELY = 7500.0
"""Maximum age in seconds of a recent announcement of an app: each of its processes announces it every hour."""
_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class AwaitedJob:
    """A job, or a flow, whose result another job has awaited for `seconds`."""

    id: str
    queue: str
    """The queue or partition of the job."""
    seconds: float


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that a worker runs."""

    id: str
    queue: str
    """The job's queue or partition."""
    task: str
    since: datetime
    attempt: int
    waits_for: list[AwaitedJob] = field(default_factory=list[AwaitedJob])
    """Up to five jobs or flows whose results it awaits."""
    process: int = 0
    """The number of its worker process, from 0."""
    runner: RunnerState = ""
    """For an `executor="process"` task: "runs" if the job has a runner, "waits" if it waits for one; else ""."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker (one supervisor and its processes) in its last announcement; sizes in bytes, durations in seconds.

    `busy` of its `slots` run jobs, and `waiting` of these wait for results of other jobs; `jobs` has up to 200 running
    jobs, the waiting ones first. `lag` is the lag of its slowest event loop in the last seconds. `memory` is the memory
    of all its processes.
    """

    name: str
    host: str
    pid: int
    version: str
    app: str
    queues: list[str]
    """Queues and partitions."""
    processes: int
    concurrency: int
    started: datetime
    lease: float
    state: WorkerState = "running"
    busy: int = 0
    slots: int = 0
    jobs: list[RunningJob] = field(default_factory=list[RunningJob])
    memory: int | None = None
    lag: float | None = None
    app_version: str = ""
    """Version of the app's code, if its settings name it; `version` is Lockwork's."""
    code: str = ""
    """The `App.code` of the version that it runs."""
    waiting: int = 0
    seen: datetime = _NEVER
    """Time of its last announcement, by the server's clock."""
    isolating: int = 0
    """Number of isolation processes, with one slot each, besides `processes`: they run jobs that shared a crash."""

    @property
    def alive(self) -> bool:
        """True if its last announcement is recent."""
        return self.state != "lost"


@dataclass(frozen=True, slots=True)
class AnnouncedTask:
    """A task of an app, with the facts for enqueuing its jobs without its code; `timeout` in seconds."""

    name: str
    queue: str
    kind: Literal["async", "thread", "process", "batch"]
    timeout: float | None
    retries: int
    hidden: bool = False
    """True if its arguments must not be shown."""
    parameters: list[str] = field(default_factory=list[str])
    """Parameters as in `def`, without defaults: "user", "subject=", "*rest"; keyword-only parameters follow "*",
    positional-only ones precede "/"."""
    priority: int = 1
    max_deliveries: int | None = None
    retry_until_ms: int | None = None
    """Time after which no attempt begins: ms from the enqueue on, or -ms since 1970."""
    key: str | None = None
    group: str | None = None
    group_concurrency: int | None = None
    group_rate: str | None = None
    version: str = ""
    """A fingerprint of its parameters and their types."""
    aliases: list[str] = field(default_factory=list[str])
    """Former names: workers also run jobs with these."""
    tags: list[str] = field(default_factory=list[str])
    other_queues: list[str] = field(default_factory=list[str])
    """Other queues that its jobs may be in."""
    limits: str = ""
    """Its limits over all workers, as `TaskLimits.stored`."""
    unique: dict[str, Any] = field(default_factory=dict[str, Any])
    """Options of a unique task, `unique` to `debounce_max`; empty for any other."""
    expires_ms: int | None = None
    """Time in ms that a job has to start, or -ms since 1970."""
    replicas: int = 0
    keep_result: bool = True
    defaults: dict[str, Any] = field(default_factory=dict[str, Any])
    """Default values, as JSON, of parameters that the key, the group or the unique name may use."""

    @property
    def queues(self) -> list[str]:
        """All queues that its jobs may be in, its own first."""
        return [self.queue, *self.other_queues]

    @property
    def positions(self) -> list[str]:
        """The names of the parameters that accept a positional argument."""
        return [
            each.rstrip("=")
            for each in takewhile(lambda each: not each.startswith("*"), self.parameters)
            if each != "/"
        ]


CodecKind = Literal["encrypted", "signed"]


@dataclass(frozen=True, slots=True)
class App:
    """The tasks, partitions and schedules of one version of an app, from its last announcement.

    During a deployment an app has several versions.
    """

    name: str
    tasks: list[AnnouncedTask]
    partitions: dict[str, int]
    schedules: list[str]
    version: str
    """Version of Lockwork."""
    python: str = ""
    seen: datetime = _NEVER
    app_version: str = ""
    """Version of the app's code, if its settings name it."""
    code: str = ""
    """A fingerprint of its tasks, partitions and schedules."""
    parts: int = 1
    """Number of records of this version on the server."""
    codecs: dict[str, CodecKind] = field(default_factory=dict[str, CodecKind])
    """How its payloads are protected, "encrypted" or "signed", by queue; the key "" is for all queues."""
    ten_priorities: list[str] = field(default_factory=list[str])
    """The queues that have ten priorities."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """The identity of this version among all versions of all apps."""
        return self.name, self.app_version, self.code

    def task(self, name: str) -> AnnouncedTask | None:
        """Return the task that runs jobs of this name; None if the app has none."""
        return next((task for task in self.tasks if name == task.name or name in task.aliases), None)


def newest(apps: Iterable[App]) -> list[App]:
    """Return the last announced version of each app; the oldest announcement comes first."""
    return list({app.name: app for app in sorted(apps, key=lambda app: app.seen)}.values())


T = TypeVar("T", Worker, App)


def _decoded(found: Sequence[Announcement], kind: type[T]) -> Iterator[tuple[T, float]]:
    """Yield the readable records, each with its age in seconds."""
    decoder = msgspec.msgpack.Decoder(kind)
    for each in found:
        try:
            record = decoder.decode(each.record)
        except msgspec.MsgspecError:
            continue  # written by another version
        name, seen = each.name.partition(" ")[0], datetime.fromtimestamp(each.seen / 1000, UTC)
        yield replace(record, name=name, seen=seen), each.age


def read_workers(prefix: str) -> Protocol[list[Worker]]:
    """Read the workers of the last hour."""
    records = yield from announcements.read(prefix, WORKERS)
    return [
        replace(worker, state="lost") if age > max(SILENT, worker.lease) else worker
        for worker, age in _decoded(records, Worker)
    ]


def read_apps(prefix: str) -> Protocol[list[App]]:
    """Read the apps of the last 30 days; replaced versions stay for one more day."""
    records = yield from announcements.read(prefix, APPS)
    apps: dict[tuple[str, str, str], App] = {}
    for part, _ in _decoded(records, App):
        app = apps.setdefault(part.identity, part)
        if app is not part:
            app.tasks.extend(part.tasks)
            app.schedules.extend(part.schedules)
            app.partitions.update(part.partitions)
    return list(apps.values())


class RunningVersions(Struct, frozen=True):
    """The versions of apps that live workers run, or that have a recent announcement."""

    apps: list[App]
    workers: list[Worker]
    """The live workers."""
    at: datetime
    """The time of the newest announcement, by the server's clock."""

    @classmethod
    def none(cls) -> RunningVersions:
        """Return the empty value, for a user without permission to read announcements."""
        return cls([], [], _NEVER)

    @classmethod
    def of_apps(cls, apps: list[App]) -> RunningVersions:
        """Return the value for a user without permission to read workers."""
        return cls(apps, [], max((app.seen for app in apps), default=_NEVER))

    def having(self, task: str) -> list[tuple[App, AnnouncedTask]]:
        """Return the versions of a task that live workers run, the newest first.

        Without such a version, return the recently announced ones, or else the last one of each app.
        """
        apps = sorted(self.apps, key=lambda app: app.seen, reverse=True)
        versions = [(app, each) for app in apps if (each := app.task(task))]
        live = {(each.app, each.app_version, each.code) for each in self.workers}
        lately = [each for each in versions if (self.at - each[0].seen).total_seconds() < _LATELY]
        last = {app.identity for app in newest(app for app, _ in versions)}
        running = [each for each in versions if each[0].identity in live]
        return running or lately or [each for each in versions if each[0].identity in last]

    def of_workers(self, queue: str) -> list[App]:
        """Return the versions that live workers of a queue or partition run."""
        running = {(each.app, each.app_version, each.code) for each in self.workers if queue in each.queues}
        return [app for app in self.apps if app.identity in running]

    def known(self, task: str, queue: str) -> bool:
        """Return True if a live worker of the queue knows the task."""
        return any(app.task(task) for app in self.of_workers(queue))

    def versions(self, task: str, queue: str) -> set[str]:
        """Return the versions of a task that live workers of the queue know, or that producers recently announced.

        Announcements of other apps than those of these workers count only if the task names the queue, or if no such
        worker is announced yet.
        """
        lately = [app for app in self.apps if (self.at - app.seen).total_seconds() < _LATELY]
        running = self.of_workers(queue)
        names, base = {app.name for app in running}, base_queue(queue)
        pairs = [(app, app.task(task)) for app in {app.identity: app for app in (*lately, *running)}.values()]
        return {each.version for app, each in pairs if each and (base in each.queues or app.name in names or not names)}


def read_running(prefix: str) -> Protocol[RunningVersions]:
    """Read the running and the recently announced versions of apps."""
    workers = [worker for worker in (yield from read_workers(prefix)) if worker.alive]
    apps = yield from read_apps(prefix)
    seen = [*(worker.seen for worker in workers), *(app.seen for app in apps)]
    return RunningVersions(apps, workers, max(seen, default=_NEVER))


class EmbeddedWorker(ABC):
    """A worker in this process, made by `lw.worker()`; it can run again after it has stopped.

    Unlike `lockwork worker`, it has one process: a job that kills the process ends the program, `hard_timeout` has no
    effect, and `executor="process"` tasks run in a thread. Jobs that may have killed a worker wait for a worker of
    `lockwork worker`. The program handles signals, and calls `stop`.
    """

    @abstractmethod
    def run(self) -> None:
        """Run jobs on this thread, in an event loop of its own, until `stop`.

        Raises ServerUnavailable, or LockworkError if the app's lifespans or dependencies fail; the log has the reason.
        """

    @abstractmethod
    async def arun(self) -> None:
        """Async version of `run`: runs jobs in this event loop. If it is cancelled, its jobs are returned at once."""

    @abstractmethod
    def stop(self) -> None:
        """Fetch no more jobs, and let `run` return when its jobs have ended, or after the grace; from any thread.

        A second call ends the jobs at once, and returns them to the queue.
        """


class WorkerHandle:
    """Controls a worker; each method returns True if the worker announced itself in the last minute.

    The worker executes a command within a second, or within 5 s if the command's message is lost.
    """

    def __init__(self, runtime: Runtime, name: str) -> None:
        self.name: str = checked(name, "a worker's name")
        self._runtime = runtime

    def quiet(self) -> bool:
        """Stop fetching jobs; running jobs continue."""
        return self._runtime.run(self._order("quiet"))

    async def aquiet(self) -> bool:
        """Async version of `quiet`."""
        return await self._runtime.arun(self._order("quiet"))

    def resume(self) -> bool:
        """Fetch jobs again, in new worker processes; the quiet processes finish their jobs and exit."""
        return self._runtime.run(self._order("resume"))

    async def aresume(self) -> bool:
        """Async version of `resume`."""
        return await self._runtime.arun(self._order("resume"))

    def stop(self) -> bool:
        """Stop the worker, as SIGTERM does: running jobs may continue within its --grace."""
        return self._runtime.run(self._order("stop"))

    async def astop(self) -> bool:
        """Async version of `stop`."""
        return await self._runtime.arun(self._order("stop"))

    def _order(self, word: Order) -> Protocol[bool]:
        return announcements.order(self._runtime.prefix, self.name, word, 60_000)
