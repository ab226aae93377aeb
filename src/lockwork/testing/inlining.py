"""Runs a job where it was enqueued, as `inline()` does."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from msgspec import Struct

from lockwork import codecs
from lockwork.app.lockwork import Lockwork, apps_here
from lockwork.jobs import options as job_options
from lockwork.jobs.fake import FakeJobContext, NoteLog, in_slot
from lockwork.payloads.payloads import Payloads
from lockwork.tasks.middleware import Middlewares
from lockwork.tasks.task import Task
from lockwork.testing.recorded import RecordedJob
from lockwork.worker.execution.around import CallEnd, aaround, aended, around, ended
from lockwork.worker.execution.batching import ends_of, results_of


class InlineResults:
    """The results of jobs, as a server keeps them."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def blob(self, id: str) -> bytes | None:
        """Return a job's outcome as the script queue/outcome does; None if the job did not run."""
        return self._blobs.get(id)

    def add(self, call: _InlineCall, value: object) -> None:
        """Keep a result; raises ConfigError or PayloadTooLarge if it cannot be sent."""
        encoded, what = b"", f"the result of task {call.task.name!r}"
        if call.task.options_in_force.keep_result:
            encoded = codecs.encode(value, what, call.max_result)
            may_change = call.task.signature.result_may_change
            if may_change is not None and may_change(encoded):
                encoded = codecs.encode(codecs.exact(value, what), what, call.max_result)
            if (payloads := call.payloads) is not None:
                queue = call.task.options_in_force.queue
                encoded = payloads.seal_value("result", queue, call.context.id, encoded)
        self._blobs[call.context.id] = b"s" + encoded

    def clear(self) -> None:
        """Forget all."""
        self._blobs.clear()


class _InlineCall(Struct, frozen=True):
    """A recorded job, decoded as in a worker."""

    task: Task[..., Any, Any]
    args: list[Any]
    kwargs: dict[str, Any]
    context: FakeJobContext
    middlewares: Middlewares
    max_result: int
    payloads: Payloads | None

    @classmethod
    def of(cls, job: RecordedJob) -> _InlineCall:
        app = _app_of(job)
        task = app.registry.get(job.task)
        args, kwargs = list(job.args), dict(job.kwargs)
        task.signature.convert(args, kwargs)
        task.signature.check(args, kwargs)
        context = FakeJobContext(
            NoteLog(),
            queue_context=task.queue_context(),
            task=task.name,
            id=job.id,
            headers=job_options.headers(job.record),
            tags=job.tags,
        )
        if task.batching is not None:
            args = [args]
        middlewares = app.registry.context.middlewares
        return cls(task, args, kwargs, context, middlewares, app.config.max_result, app.runtime.payloads)

    @property
    def needs_loop(self) -> bool:
        """Return True if only an event loop can run it."""
        return self.task.is_async or bool(self.middlewares.on_loop)

    def run(self) -> Any:
        """Call a `def` task within its middlewares, on this thread."""
        inner = self.middlewares.in_thread
        return around(inner, [self.context], lambda _: self._ends(ended(self.task, None, self._called)))[0].get()

    async def arun(self) -> Any:
        """Call a task within its middlewares; a `def` runs in a thread."""
        is_async = self.task.is_async
        outer = self.middlewares.around_jobs if is_async else self.middlewares.on_loop

        async def called(_: list[int]) -> list[CallEnd]:
            if is_async:
                return self._ends(await aended(self.task.arun(*self.args, **self.kwargs)))
            return [await aended(asyncio.to_thread(self.run))]

        return (await aaround(outer, [self.context], called, []))[0].get()

    def _called(self) -> Any:
        return self.task.run(*self.args, **self.kwargs)

    def _ends(self, end: CallEnd) -> list[CallEnd]:
        return [end] if self.task.batching is None else ends_of(end, 1, partial(results_of, self.task))


def is_known(job: RecordedJob) -> bool:
    """Return True if the app has the task of a job; False for a job of a remote task."""
    return _app_of(job).registry.find(job.task) is not None


def _app_of(job: RecordedJob) -> Lockwork:
    return next(app for app in apps_here() if app.runtime is job.runtime)


def run_inline(job: RecordedJob, results: InlineResults) -> None:
    """Run a job on this thread; raises its error."""
    call = _InlineCall.of(job)
    with in_slot(call.context):
        if call.needs_loop:
            # with a factory, the runner does not replace the thread's event loop
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                value = runner.run(call.arun())
        else:
            value = call.run()
    results.add(call, value)


async def arun_inline(job: RecordedJob, results: InlineResults) -> None:
    """Async version of `run_inline`."""
    call = _InlineCall.of(job)
    with in_slot(call.context):
        value = await call.arun()
    results.add(call, value)
