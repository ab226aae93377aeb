"""Workers and apps as they announce themselves on the server, and the orders that a worker takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal, TypeVar

import msgspec

from lockwork.jobs.current import RunnerState
from lockwork.protocol.announcements import announcements
from lockwork.protocol.announcements.announcements import APPS, WORKERS, Announcement, Order
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import base_queue, checked
from lockwork.runtime.runtime import Runtime

WorkerState = Literal["running", "quiet", "stopping", "lost"]

SILENT = 20.0
"""Seconds without an announcement after which a worker counts as lost; workers announce themselves every 5 s."""
_LATELY = 7500.0
"""Seconds since which an app counts as announced lately: each of its processes announces it every hour."""
_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class AwaitedJob:
    """A job, or a flow, for whose result a job has waited for `seconds`."""

    id: str
    queue: str
    """Its queue or partition."""
    seconds: float


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that a worker runs."""

    id: str
    queue: str
    """Its queue or partition."""
    task: str
    since: datetime
    attempt: int
    waits_for: list[AwaitedJob] = field(default_factory=list[AwaitedJob])
    """Up to five of the results it waits for."""
    process: int = 0
    """The number of its worker process, from 0."""
    runner: RunnerState = ""
    """Whether a job of an `executor="process"` task has a runner, or waits for one."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker (one supervisor and its processes), as it announced itself last; sizes in bytes, durations in seconds.

    `busy` of its `slots` run jobs, and `waiting` of these wait for results of other jobs; `jobs` names up to 200, first
    those that wait. `lag` is the lag of its slowest event loop in the
    last seconds. `memory` is that of all its processes.
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
    """Of the app's code, if its settings say so; `version` is that of Lockwork."""
    code: str = ""
    """As `App.code`: which version of the app it runs."""
    waiting: int = 0
    seen: datetime = _NEVER
    """The server's time of its last announcement."""
    isolating: int = 0
    """How many isolation processes it has, of one slot each, beside `processes`: they run jobs that shared a crash."""

    @property
    def alive(self) -> bool:
        """Whether it announced itself lately."""
        return self.state != "lost"


@dataclass(frozen=True, slots=True)
class AnnouncedTask:
    """A task of an app, with what an enqueue without its code must know; `timeout` in seconds."""

    name: str
    queue: str
    kind: Literal["async", "thread", "process", "batch"]
    timeout: float | None
    retries: int
    hidden: bool = False
    """Whether its arguments must not be shown."""
    parameters: list[str] = field(default_factory=list[str])
    """As `def` has them, without defaults: "user", "subject=", "*rest"; those after "*" are given by name."""
    priority: int = 1
    max_deliveries: int | None = None
    key: str | None = None
    group: str | None = None
    group_concurrency: int | None = None
    group_rate: str | None = None
    version: str = ""
    """A fingerprint of its parameters and their types."""
    aliases: list[str] = field(default_factory=list[str])
    """Former names, under which its workers also run jobs."""
    tags: list[str] = field(default_factory=list[str])

    @property
    def positions(self) -> list[str]:
        """The names of the parameters that may be given by position."""
        return [each.rstrip("=") for each in takewhile(lambda each: not each.startswith("*"), self.parameters)]


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
    """Of Lockwork."""
    python: str = ""
    seen: datetime = _NEVER
    app_version: str = ""
    """Of the app's code, if its settings say so."""
    code: str = ""
    """A fingerprint of its tasks, partitions and schedules."""
    parts: int = 1
    """How many records the version takes on the server."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """What tells this version from others, of this app and of other apps."""
        return self.name, self.app_version, self.code

    def task(self, name: str) -> AnnouncedTask | None:
        """Return the task that runs jobs of this name; None if the app has none."""
        return next((task for task in self.tasks if name == task.name or name in task.aliases), None)


def newest(apps: Iterable[App]) -> list[App]:
    """Return the version of each app that was announced last; the oldest announcement comes first."""
    return list({app.name: app for app in sorted(apps, key=lambda app: app.seen)}.values())


T = TypeVar("T", Worker, App)


def _decoded(found: Sequence[Announcement], kind: type[T]) -> Iterator[tuple[T, float]]:
    """The records that can be read, each with its age in seconds."""
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
    found = yield from announcements.read(prefix, WORKERS)
    return [
        replace(worker, state="lost") if age > max(SILENT, worker.lease) else worker
        for worker, age in _decoded(found, Worker)
    ]


def read_apps(prefix: str) -> Protocol[list[App]]:
    """Read the apps of the last 30 days; versions that were replaced are there for another day."""
    found = yield from announcements.read(prefix, APPS)
    apps: dict[tuple[str, str, str], App] = {}
    for part, _ in _decoded(found, App):
        app = apps.setdefault(part.identity, part)
        if app is not part:
            app.tasks.extend(part.tasks)
            app.schedules.extend(part.schedules)
            app.partitions.update(part.partitions)
    return list(apps.values())


@dataclass(frozen=True, slots=True)
class RunningVersions:
    """The versions of apps that live workers run, or that were announced lately."""

    apps: list[App]
    workers: list[Worker]
    """Those that are alive."""
    at: datetime
    """The time of the newest announcement, by the server's clock."""

    @classmethod
    def none(cls) -> RunningVersions:
        """Return what a user knows who may not read announcements."""
        return cls([], [], _NEVER)

    def of_workers(self, queue: str) -> list[App]:
        """Return the versions that live workers of a queue or partition run."""
        running = {(each.app, each.app_version, each.code) for each in self.workers if queue in each.queues}
        return [app for app in self.apps if app.identity in running]

    def known(self, task: str, queue: str) -> bool:
        """Return True if a live worker of the queue knows the task."""
        return any(app.task(task) for app in self.of_workers(queue))

    def versions(self, task: str, queue: str) -> set[str]:
        """Return the versions of a task that live workers of the queue know, or that producers announced lately."""
        lately = [app for app in self.apps if (self.at - app.seen).total_seconds() < _LATELY]
        running = self.of_workers(queue)
        found = [(app, app.task(task)) for app in {app.identity: app for app in (*lately, *running)}.values()]
        base = base_queue(queue)
        return {each.version for app, each in found if each and (each.queue == base or app in running)}


def read_running(prefix: str) -> Protocol[RunningVersions]:
    """Read which versions of apps run."""
    workers = [worker for worker in (yield from read_workers(prefix)) if worker.alive]
    apps = yield from read_apps(prefix)
    seen = [*(worker.seen for worker in workers), *(app.seen for app in apps)]
    return RunningVersions(apps, workers, max(seen, default=_NEVER))


class WorkerHandle:
    """Controls a worker; each method returns whether the worker announced itself in the last minute.

    The worker carries an order out within a second, or within 5 s if no message reaches it.
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
