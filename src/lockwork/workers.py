"""Workers and apps as they announce themselves on the server, and the orders that a worker takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal, TypeVar

import msgspec

from lockwork.protocol import announcements as protocol
from lockwork.protocol.announcements import APPS, WORKERS, Announcement, Order
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import checked
from lockwork.runtime.runtime import Runtime

WorkerState = Literal["running", "quiet", "stopping", "lost"]

SILENT = 20.0
"""Seconds without an announcement after which a worker counts as lost; workers announce themselves every 5 s."""
_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that a worker runs."""

    id: str
    queue: str
    """Its queue or partition."""
    task: str
    since: datetime
    attempt: int


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker (one supervisor and its processes), as it announced itself last; sizes in bytes, durations in seconds.

    `busy` of its `slots` run jobs; `jobs` names up to 200 of them. `lag` is the lag of its slowest event loop in the
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
    seen: datetime = _NEVER
    """The server's time of its last announcement."""

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

    @property
    def positions(self) -> list[str]:
        """The names of the parameters that may be given by position."""
        return [each.rstrip("=") for each in takewhile(lambda each: not each.startswith("*"), self.parameters)]


@dataclass(frozen=True, slots=True)
class App:
    """The tasks, partitions and schedules of an app, from its last announcement."""

    name: str
    tasks: list[AnnouncedTask]
    partitions: dict[str, int]
    schedules: list[str]
    version: str
    """Of Lockwork."""
    python: str = ""
    seen: datetime = _NEVER


T = TypeVar("T", Worker, App)


def _decoded(found: Sequence[Announcement], kind: type[T]) -> Iterator[tuple[T, float]]:
    """The records that can be read, each with its age in seconds."""
    decoder = msgspec.msgpack.Decoder(kind)
    for each in found:
        try:
            record = decoder.decode(each.record)
        except msgspec.MsgspecError:
            continue  # written by another version
        yield replace(record, name=each.name, seen=datetime.fromtimestamp(each.seen / 1000, UTC)), each.age


def read_workers(prefix: str) -> Protocol[list[Worker]]:
    """Read the workers of the last hour."""
    found = yield from protocol.read(prefix, WORKERS)
    return [
        replace(worker, state="lost") if age > max(SILENT, worker.lease) else worker
        for worker, age in _decoded(found, Worker)
    ]


def read_apps(prefix: str) -> Protocol[list[App]]:
    """Read the apps of the last 30 days."""
    found = yield from protocol.read(prefix, APPS)
    return [app for app, _ in _decoded(found, App)]


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
        return protocol.order(self._runtime.prefix, self.name, word, 60_000)
