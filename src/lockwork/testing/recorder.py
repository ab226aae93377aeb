"""Records what the Lockwork objects of this process enqueue, at the place where their calls leave for the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from lockwork.durations import Duration
from lockwork.protocol.effects import Call, Calls, Clock, Effect, Indexed, Protocol, Shards
from lockwork.protocol.scripts import script
from lockwork.runtime.clock import now
from lockwork.runtime.drive import drive, no_running_loop
from lockwork.runtime.replacement import replacement
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.remote import RemoteTask
from lockwork.tasks.task import Task
from lockwork.testing.clocks import MovableClock
from lockwork.testing.draining import Drained, adrain, drain
from lockwork.testing.inlining import InlineResults, arun_inline, is_known, run_inline
from lockwork.testing.matching import Expected, complaint, count_of
from lockwork.testing.recorded import ENQUEUING, JOINED, RecordedJob, jobs_of, queue_of, recorded
from lockwork.testing.servers import server, server_here

T = TypeVar("T")


class NoServer(RuntimeError):
    """The code under test needs a server, and `record()` has none."""


class Recording:
    """Jobs that were enqueued since `start`, in all threads and asyncio tasks of this process.

    Use it as a context manager, or call `start` and `stop`. Recordings may be nested: each has the jobs of its time.
    """

    def __init__(self, *, inline: bool = False, forward: bool = False) -> None:
        self._inline = inline
        self._forward = forward
        self._jobs: list[RecordedJob] = []
        self._server: ExitStack = ExitStack()
        """The server that `run_all` has started."""

    @property
    def jobs(self) -> list[RecordedJob]:
        """All recorded jobs, in order."""
        return list(self._jobs)

    def start(self) -> Self:
        """Begin to record."""
        _dispatcher.begin(self)
        return self

    def stop(self) -> None:
        """Stop recording; the recorded jobs stay. A second call does nothing."""
        _dispatcher.end(self)
        self._server.close()

    def clear(self) -> None:
        """Forget the recorded jobs; those that no server has yet will not run."""
        self._jobs.clear()
        _dispatcher.pending.clear()

    def enqueued(self, task: Task[..., Any, Any] | RemoteTask[Any] | str | None = None) -> list[RecordedJob]:
        """Return the recorded jobs of a task, in order; without a task, all."""
        if task is None:
            return self.jobs
        expected = Expected.read(task, None, None, None, None, None, None)
        return [job for job in self._jobs if expected.of_task(job)]

    def assert_enqueued(
        self,
        task: Task[..., Any, Any] | RemoteTask[Any] | str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        queue: str | None = None,
        key: str | None = None,
        count: int | None = None,
    ) -> list[RecordedJob]:
        """Raise AssertionError, which shows the differences, unless such a job was enqueued; return these jobs.

        Args:
            task: the task, or its name.
            args: the first arguments, however the call passed them.
            kwargs: some of the arguments by name, however the call passed them. Default values count. A dict in them
                may have more keys than expected. Values may be matchers, such as `unittest.mock.ANY`.
            delay: the delay.
            at: the moment from which it may run, a datetime with a time zone.
            queue: the queue, or its partition.
            key: the job's key.
            count: the exact number of such jobs. Default None: at least one.
        """
        expected = Expected.read(task, args, kwargs, delay, at, queue, key)
        most, jobs = count_of(count), self.jobs
        matches = [job for job in jobs if expected.of_task(job) and not expected.differences(job)]
        if len(matches) != most if most is not None else not matches:
            raise AssertionError(complaint(expected, most, jobs, len(matches)))
        return matches

    def assert_not_enqueued(
        self,
        task: Task[..., Any, Any] | RemoteTask[Any] | str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        queue: str | None = None,
        key: str | None = None,
    ) -> None:
        """Raise AssertionError if such a job was enqueued; see `assert_enqueued`."""
        self.assert_enqueued(task, args=args, kwargs=kwargs, delay=delay, at=at, queue=queue, key=key, count=0)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _dispatcher.end(self)
        self._server.__exit__(kind, error, trace)  # after an error of the block, do not report leaks

    def __repr__(self) -> str:
        return f"<Recording of {len(self._jobs)} jobs>"

    @property
    def runs_inline(self) -> bool:
        """True if jobs run when they are enqueued."""
        return self._inline

    @property
    def forwards(self) -> bool:
        """True if calls go to the server, too."""
        return self._forward

    def add(self, jobs: Sequence[RecordedJob]) -> None:
        """Note jobs that were enqueued."""
        self._jobs.extend(jobs)

    def run_all(self, *, within: Duration | None = "10m", most: int = 10_000, raise_errors: bool = True) -> Drained:
        """Run the recorded jobs, and what they enqueue: see `lockwork.testing.run_all`."""
        no_running_loop()
        return drain(self._sent(), within, most, raise_errors=raise_errors)

    async def arun_all(
        self, *, within: Duration | None = "10m", most: int = 10_000, raise_errors: bool = True
    ) -> Drained:
        """Async version of `run_all`."""
        clock = await asyncio.to_thread(self._sent)
        return await adrain(clock, within, most, raise_errors=raise_errors)

    def _sent(self) -> MovableClock:
        """Start a server unless one is in force, and send it the recorded jobs; return its clock."""
        if replacement.opener is None:
            self._server.enter_context(server())
        _dispatcher.send()
        local = server_here()
        assert local is not None
        return local.clock


_REPLIES: dict[str, tuple[Any, ...]] = {
    "announcements/put": (0, b""),
    "announcements/read": (0,),
    "flows/relay": (),
}
"""Replies of a server without announcements, and without messages of flows: `run_all` starts a worker, which relays."""
_CREATE, _DELETE = "schedules/create", "schedules/delete"
_SENT = (_CREATE, "flows/push", "flows/push_part")
"""Scripts whose calls a server gets later, also if they enqueue no job."""


class _Dispatcher:
    """Runs the protocols of all runtimes while there are recordings."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: tuple[Recording, ...] = ()
        self._results = InlineResults()
        self.pending: list[tuple[Runtime, Call]] = []
        """Calls whose jobs no server has yet."""

    @property
    def active(self) -> tuple[Recording, ...]:
        """The recordings, the innermost last."""
        return self._active

    def begin(self, recording: Recording) -> None:
        with self._lock:
            if recording in self._active:
                raise RuntimeError("this recording has begun already")
            self._active = (*self._active, recording)
            replacement.runner = self

    def end(self, recording: Recording) -> None:
        with self._lock:
            self._active = tuple(each for each in self._active if each is not recording)
            if not self._active:
                self._results.clear()
                self.pending.clear()
                replacement.runner = None

    def send(self) -> None:
        """Send the pending calls to the server in force."""
        calls, self.pending = self.pending, []
        for runtime, call in calls:
            runtime.run_on_server(_sent(call))

    # -- as a ProtocolRunner ------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise NoServer if a runtime may not open its server."""
        if not self._has_server:
            raise _no_server("this call")

    def run(self, runtime: Runtime, protocol: Protocol[T], /) -> T:
        new_jobs: list[RecordedJob] = []
        if self._has_server:
            result = runtime.run_on_server(self._noted(runtime, protocol, new_jobs))
        else:
            no_running_loop()
            result = drive(protocol, lambda effect: self._perform(runtime, effect, new_jobs))
        if new_jobs and self._runs_inline:
            for job in filter(is_known, new_jobs):
                _check_alone(job)
                run_inline(job, self._results)
        return result

    async def arun(self, runtime: Runtime, protocol: Protocol[T], /) -> T:
        new_jobs: list[RecordedJob] = []
        if self._has_server:
            result = await runtime.arun_on_server(self._noted(runtime, protocol, new_jobs))
        else:
            result = drive(protocol, lambda effect: self._perform(runtime, effect, new_jobs))
        if new_jobs and self._runs_inline:
            for job in filter(is_known, new_jobs):
                _check_alone(job)
                await arun_inline(job, self._results)
        return result

    @property
    def _has_server(self) -> bool:
        return replacement.opener is not None or any(recording.forwards for recording in self._active)

    @property
    def _runs_inline(self) -> bool:
        active = self._active
        return bool(active) and active[-1].runs_inline

    def _perform(self, runtime: Runtime, effect: Effect, made: list[RecordedJob]) -> Any:
        """Perform an effect without a server."""
        if isinstance(effect, Call):
            reply = self._reply(effect)
            if self._note(runtime, effect, reply, made) or effect.script.name in _SENT:
                self.pending.append((runtime, effect))
            return reply
        if isinstance(effect, Calls):
            return [self._perform(runtime, call, made) for call in effect.calls]
        if isinstance(effect, Clock):
            return now()
        if isinstance(effect, Shards):
            return 1
        if isinstance(effect, Indexed):
            return []
        raise _no_server("a wait for other processes")

    def _reply(self, call: Call) -> Any:
        """Return what a server replies that has room for all jobs, and no other jobs with their unique names or ids."""
        name = call.script.name
        if name in _REPLIES:
            return list(_REPLIES[name])
        if name == "queue/outcome" and (blob := self._results.blob(str(call.args[0]))) is not None:
            return [b"ended", blob]
        if name == _CREATE:
            self._delete(call, str(call.args[0]))
            return 1
        if name == _DELETE:
            return int(self._delete(call, str(call.args[1])))
        if name not in ENQUEUING:
            raise _no_server(_operation(name))
        rest = call.args[call.script.declared.fixed :]
        if name in ("queue/push_unique", "queue/push_own"):
            replies = [(str(id).encode(), b"n") for id in rest[::3]]
            return [part for reply in replies for part in (reply if name == "queue/push_unique" else reply[1:])]
        jobs = 1 if name in ("queue/push_one", "flows/push", "flows/push_part") else len(rest) // 3
        return (jobs, call.replicas) if call.replicas else jobs

    def _delete(self, call: Call, name: str) -> bool:
        """Delete a recorded schedule; return True if there was one."""
        kept = [
            each for each in self.pending
            if not (each[1].script.name == _CREATE and each[1].args[0] == name and set(each[1].keys) & set(call.keys))
        ]  # fmt: skip
        found, self.pending = len(kept) < len(self.pending), kept
        return found

    def _noted(self, runtime: Runtime, protocol: Protocol[T], made: list[RecordedJob]) -> Protocol[T]:
        """Run a protocol on a server, and note what its calls enqueue."""
        step: Callable[[Any], Effect] = protocol.send
        value: Any = None
        while True:
            try:
                effect = step(value)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                value = yield effect
                step = protocol.send
            except BaseException as error:  # noqa: BLE001 - the protocol decides, and raises it again
                step, value = protocol.throw, error
                continue
            if isinstance(effect, Call):
                self._note(runtime, effect, value, made)

    def _note(self, runtime: Runtime, call: Call, reply: Any, made: list[RecordedJob]) -> bool:
        """Note the jobs that a call enqueued; return True if there are any."""
        if call.script.name not in ENQUEUING and call.script.name not in JOINED:
            return False
        queue = queue_of(call)
        jobs = [recorded(job, queue, runtime) for job in jobs_of(call, reply)]
        made += jobs
        for recording in self._active:
            recording.add(jobs)
        return bool(jobs)


_dispatcher = _Dispatcher()


def _sent(call: Call) -> Protocol[Any]:
    # its script may be without the test's clock
    return (yield replace(call, script=script(call.script.name), packed=None))


def _operation(script: str) -> str:
    feature, _, name = script.partition("/")
    what = {"queue": "a call about jobs", "flows": "a call about a flow", "permits": "a semaphore or read-write lock"}
    return f"{what.get(feature, feature.replace('_', ' '))} ({feature}/{name})"


def _no_server(what: str) -> NoServer:
    return NoServer(
        f"{what} needs a server, which decides it, and record() has none: use the fixture lockwork_server, or "
        "lockwork.testing.server(), around it"
    )


def _check_alone(job: RecordedJob) -> None:
    if job.flow is not None:
        raise NoServer("inline() cannot run a flow, whose jobs wait for each other on a server: use run_all()")


def record(*, forward: bool = False) -> Recording:
    """Record what all Lockwork objects of this process enqueue, instead of a server.

    Use it as a context manager, or call `start` and `stop`. Jobs are checked and encoded as in production, but nothing
    is sent, and no socket is opened. Unique names, own ids, limits of queues, and what flows do with results are
    decided by the server: here each call enqueues its job. A call that needs a server raises NoServer.

    `forward`: also send each call to its server, as it does while `lockwork.testing.server()` is in force.
    """
    return Recording(forward=forward)


def inline() -> Recording:
    """Record, and run each job when it is enqueued, also with a delay; its error is raised from `enqueue`.

    Arguments are encoded and decoded, and middlewares run, as in a worker; there are no hooks, retries and time limits.
    `job.result()` returns the result. Jobs of a flow raise NoServer: use `run_all`.
    """
    return Recording(inline=True)


def innermost() -> Recording:
    """Return the innermost recording; raises RuntimeError without one."""
    if not _dispatcher.active:
        raise RuntimeError("nothing is recorded: call this in `with lockwork.testing.record():`")
    return _dispatcher.active[-1]


def run_all(*, within: Duration | None = "10m", most: int = 10_000, raise_errors: bool = True) -> Drained:
    """Run the jobs of the innermost recording, and what they enqueue, until idle, as a worker would.

    The recorded jobs are sent to an embedded server, which stays until the recording stops, and a worker in this
    process runs them: with retries, hooks, middlewares, unique names, flows, and schedules. When it is idle, the
    server's clock is set forward to the next job that is due. Without a recording, needs `server()`.

    Args:
        within: jobs that are due later than this, by the server's clock, are left. Default "10m", as long as results
            are kept by default; None: no limit.
        most: maximum number of attempts. Default 10,000.
        raise_errors: raise the error of a job that failed for good, as it is; an ExceptionGroup of several. Default
            True.
    """
    no_running_loop()
    if _dispatcher.active:
        return innermost().run_all(within=within, most=most, raise_errors=raise_errors)
    return drain(_clock(), within, most, raise_errors=raise_errors)


async def arun_all(*, within: Duration | None = "10m", most: int = 10_000, raise_errors: bool = True) -> Drained:
    """Async version of `run_all`: the jobs run on the event loop of another thread."""
    if _dispatcher.active:
        return await innermost().arun_all(within=within, most=most, raise_errors=raise_errors)
    return await adrain(_clock(), within, most, raise_errors=raise_errors)


def _clock() -> MovableClock:
    local = server_here()
    if local is None:
        raise RuntimeError("run_all() runs what was recorded, or is on a test's server: use record() or server()")
    return local.clock


def enqueued(task: Task[..., Any, Any] | RemoteTask[Any] | str | None = None) -> list[RecordedJob]:
    """Return the jobs of a task in the innermost recording; see `Recording.enqueued`."""
    return innermost().enqueued(task)


def assert_enqueued(
    task: Task[..., Any, Any] | RemoteTask[Any] | str,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    delay: Duration | None = None,
    at: datetime | None = None,
    queue: str | None = None,
    key: str | None = None,
    count: int | None = None,
) -> list[RecordedJob]:
    """Raise AssertionError unless such a job is in the innermost recording; see `Recording.assert_enqueued`."""
    return innermost().assert_enqueued(
        task, args=args, kwargs=kwargs, delay=delay, at=at, queue=queue, key=key, count=count
    )


def assert_not_enqueued(
    task: Task[..., Any, Any] | RemoteTask[Any] | str,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    delay: Duration | None = None,
    at: datetime | None = None,
    queue: str | None = None,
    key: str | None = None,
) -> None:
    """Raise AssertionError if such a job is in the innermost recording; see `Recording.assert_enqueued`."""
    innermost().assert_not_enqueued(task, args=args, kwargs=kwargs, delay=delay, at=at, queue=queue, key=key)
