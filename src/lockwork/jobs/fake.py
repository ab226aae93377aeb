"""The context of a job that no worker runs: for a task function that a test calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn, TypeVar

from lockwork import codecs
from lockwork.durations import Duration
from lockwork.errors import ServerUnavailable
from lockwork.hooks import Again
from lockwork.jobs.current import JobContext, QueueContext, SlotContext, checkpoint_name, slot
from lockwork.jobs.options import with_headers
from lockwork.protocol.effects import Call, Effect, Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.job_control import Note
from lockwork.protocol.queue.leases import Leased
from lockwork.protocol.scripts import codes
from lockwork.runtime.drive import drive, no_running_loop
from lockwork.runtime.runtime import Opened, Runtime

T = TypeVar("T")

MAX_RESULT = 4 << 20
"""Maximum bytes of what a job notes, if the app is unknown: the default of `max_result`."""


class NoteLog:
    """What a job noted, and how it asked to run again."""

    def __init__(self) -> None:
        self.progress: list[Any] = []
        self.checkpoints: dict[str, Any] = {}
        self.retries: list[float | None] = []
        self.snoozes: list[float] = []
        self.over: bool = False
        """True if the delivery has ended, so that the job can note nothing more."""


class FakeJobContext(JobContext):
    """A JobContext that keeps what the job notes in `log` instead of on a server."""

    __slots__ = ("_names", "log")

    def __init__(
        self,
        log: NoteLog,
        *,
        queue_context: QueueContext,
        task: str = "",
        id: str = "job",
        attempt: int = 1,
        fence: int = 1,
        checkpoints: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        record = b"1,1;" + codecs.encode([task, []], "the task's name", MAX_RESULT)
        if headers:
            record = with_headers(record, headers, MAX_RESULT)
        super().__init__(Leased(id, b"", record, attempt, fence), task, queue_context, tuple(tags))
        steps = {
            checkpoint_name(name): codecs.encode(value, f"checkpoint {name!r}", queue_context.cap).decode()
            for name, value in (checkpoints or {}).items()
        }
        self._note = Note(steps=steps)
        self.log: NoteLog = log
        log.checkpoints.update({name: codecs.decode(value.encode()) for name, value in steps.items()})

    @property
    def named(self) -> bool:
        """Return True if its task is known."""
        return bool(self.task)

    def run_as(self, task: str, queue_context: QueueContext, tags: tuple[str, ...]) -> None:
        """Become a job of this task."""
        self.task: str = task
        self.tags: tuple[str, ...] = self.tags or tags
        self._queue_context: QueueContext = queue_context
        self._in_requests = ""

    def retry(self, delay: Duration | None = None) -> NoReturn:
        """See JobContext."""
        try:
            super().retry(delay)
        except Again as again:
            self.log.retries.append(None if again.delay_ms is None else again.delay_ms / 1000)
            raise

    def snooze(self, delay: Duration) -> NoReturn:
        """See JobContext."""
        try:
            super().snooze(delay)
        except Again as again:
            self.log.snoozes.append((again.delay_ms or 0) / 1000)
            raise

    def _opened(self, step: str, stored: str) -> bytes:  # noqa: ARG002 - as below
        return stored.encode()

    def _sealed(self, step: str, encoded: bytes) -> bytes:  # noqa: ARG002 - a test reads the value
        return encoded

    def _run(self, protocol: Protocol[T]) -> T:
        no_running_loop()
        return drive(protocol, self._perform)

    async def _arun(self, protocol: Protocol[T]) -> T:
        return drive(protocol, self._perform)

    def _perform(self, effect: Effect) -> int:
        """Keep a note, in place of the script queue/note."""
        assert isinstance(effect, Call)
        assert effect.script.name == "queue/note", effect.script.name
        results = codes("queue/note")
        if self.log.over:
            return int(results.lease_over)
        _id, _token, _most, step, encoded = effect.args
        assert isinstance(encoded, bytes)
        assert isinstance(step, str)
        value = codecs.decode(encoded)
        if step:
            self.log.checkpoints[step] = value
        else:
            self.log.progress.append(value)
        return int(results.stored)


def fake_here() -> FakeJobContext | None:
    """Return the fake job in which this code runs."""
    mine = slot.get()
    return mine.job if mine is not None and isinstance(mine.job, FakeJobContext) else None


@contextmanager
def in_slot(*jobs: JobContext, batch: bool = False) -> Iterator[None]:
    """Run the block as these jobs: `current_job()` returns the job, and `current_jobs()` all of a batch."""
    mine = SlotContext()
    if batch:
        mine.batch = list(jobs)
    else:
        (mine.job,) = jobs
    token = slot.set(mine)
    try:
        yield
    finally:
        slot.reset(token)


@contextmanager
def as_job(
    task: str, queue_context: Callable[[], QueueContext], tags: tuple[str, ...], jobs: int | None
) -> Iterator[None]:
    """Run a call of a task as a job, unless a job runs here; `jobs`: the number of jobs of a batch call."""
    fake = fake_here()
    if fake is not None and not fake.named:
        fake.run_as(task, queue_context(), tags)
    if jobs is None:
        if slot.get() is not None:
            yield
            return
        with in_slot(FakeJobContext(NoteLog(), queue_context=queue_context(), task=task, tags=tags)):
            yield
        return
    log, attempt = (NoteLog(), 1) if fake is None else (fake.log, fake.attempt)
    desk = queue_context()
    several: list[JobContext] = [
        FakeJobContext(log, queue_context=desk, task=task, id=f"job-{number}", attempt=attempt, tags=tags)
        for number in range(1, jobs + 1)
    ]
    if fake is not None and several:
        several[0] = fake
    with in_slot(*several, batch=True):
        yield


def _no_server() -> Opened:
    raise ServerUnavailable("a fake job has no server")


@cache
def serverless() -> Runtime:
    """Return a runtime without a server."""
    return Runtime(_no_server, prefix="lw", patience=10.0, allow_eviction=False)


def serverless_queue(name: str) -> QueueContext:
    """Return the context of a queue without a server."""
    return QueueContext(name, QueueKeys("lw", name), serverless(), "", MAX_RESULT)
