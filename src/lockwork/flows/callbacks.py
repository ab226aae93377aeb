"""Tasks with the options `then` and `on_error`: each job is enqueued as a flow, with the jobs that follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

from lockwork.errors import QueueFull
from lockwork.flows.flow import Flow, new_run
from lockwork.jobs.job import Job
from lockwork.protocol.effects import Protocol
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.tasks.middleware import Outgoing
from lockwork.tasks.on_commit import Enqueuer, OnCommit, PendingJob, deliver
from lockwork.tasks.placement import Partition
from lockwork.tasks.task import Task

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


class _Planned(NamedTuple):
    """A job with its flow, which is not enqueued yet."""

    new: NewJob
    job: Job[Any]
    partition: Partition
    push: Callable[[dict[str, str]], Protocol[None]]
    """Enqueues the flow, with headers for its jobs."""


class CallbackTask(Task[P, R, C]):
    """A task whose jobs have callbacks. A call of `options` can also remove these; then it is an ordinary task."""

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Enqueue a call and its callbacks as a flow; see `Task.enqueue`."""
        if not self.options_in_force.callbacks:
            return super().enqueue(*args, **kwargs)
        return self._enqueue_flows([self._planned(args, kwargs)])[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Async version of `enqueue`."""
        if not self.options_in_force.callbacks:
            return await super().aenqueue(*args, **kwargs)
        return (await self._aenqueue_flows([self._planned(args, kwargs)]))[0]

    def on_commit(self, where: object) -> OnCommit[P, R]:
        """Return a task whose `enqueue` waits for the commit of a database transaction; see `Task.on_commit`."""
        if not self.options_in_force.callbacks:
            return super().on_commit(where)
        return OnCommit(where, self._planned, self._planned_many, self._put_off_flows)

    def _enqueue_all(self, arguments: Iterable[Any]) -> list[Job[R]]:
        if not self.options_in_force.callbacks:
            return super()._enqueue_all(arguments)
        return self._enqueue_flows(self._planned_many(arguments))

    async def _aenqueue_all(self, arguments: Iterable[Any]) -> list[Job[R]]:
        if not self.options_in_force.callbacks:
            return await super()._aenqueue_all(arguments)
        return await self._aenqueue_flows(self._planned_many(arguments))

    def _enqueue_flows(self, flows: list[_Planned]) -> list[Job[R]]:
        if self._commit is not None and (register := self._commit.find()) is not None:
            pending, handles = self._put_off_flows(flows)
            register(partial(deliver, pending))
            return handles
        with self._sending(len(flows)) as outgoing:
            self._runtime.run(self._push_flows(flows, outgoing))
        return [each.job for each in flows]

    async def _aenqueue_flows(self, flows: list[_Planned]) -> list[Job[R]]:
        if self._commit is not None and (register := await self._commit.afind()) is not None:
            pending, handles = self._put_off_flows(flows)
            await register(partial(deliver, pending))
            return handles
        with self._sending(len(flows)) as outgoing:
            await self._runtime.arun(self._push_flows(flows, outgoing))
        return [each.job for each in flows]

    def _planned(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Planned:
        flow = Flow(self._runtime, self._config, self._context, "fail")
        call = self.call(*args, **kwargs)
        node = flow.add(call)
        run, push = new_run(flow)
        partition = next(each for each in self._partitions if each.origin.keys.name == run.queue)
        job = Job[Any](partition.origin, run.job(node).id)
        return _Planned(NewJob(job.id, call.record, call.delay_ms), job, partition, push)

    def _planned_many(self, arguments: Iterable[tuple[Any, ...]]) -> list[_Planned]:
        return [self._planned(tuple(args), {}) for args in arguments]

    def _push_flows(self, flows: Sequence[_Planned], outgoing: Outgoing) -> Protocol[None]:
        """Enqueue flows one after the other, so that the first ones are enqueued if a queue becomes full."""
        outgoing.ids = tuple(each.job.id for each in flows)
        for number, each in enumerate(flows):
            try:
                yield from each.push(outgoing.headers)
            except QueueFull as full:
                full.enqueued = number
                raise
            self._run_hooks(each.partition, [each.new])

    def _put_off_flows(self, flows: list[_Planned]) -> tuple[list[PendingJob], list[Job[R]]]:
        """Prepare flows that are enqueued later, with the headers of this moment."""
        with self._sending(len(flows)) as outgoing:
            outgoing.ids = tuple(each.job.id for each in flows)
        pending: list[PendingJob] = []
        for each in flows:
            enqueuer = Enqueuer(self._runtime, partial(self._push_later, each, outgoing), each.partition)
            pending.append(PendingJob(enqueuer, each.new))
        return pending, [each.job for each in flows]

    def _push_later(
        self, flow: _Planned, outgoing: Outgoing, _partition: Partition, _jobs: list[NewJob]
    ) -> Protocol[None]:
        return self._push_flows([flow], Outgoing(outgoing.task, outgoing.queue, 1, outgoing.headers))


def with_callbacks(task: Task[P, R, C]) -> Task[P, R, C]:
    """Return a task, whose options have callbacks, that enqueues each job as a flow."""
    if isinstance(task, CallbackTask):
        return task
    made: CallbackTask[P, R, C] = object.__new__(CallbackTask)
    vars(made).update(vars(task))
    return made
