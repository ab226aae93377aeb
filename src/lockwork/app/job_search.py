"""Searches of jobs in all queues, and changes of all matching jobs, in bounded steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Unpack

from lockwork.config import Config
from lockwork.errors import ServerRefused
from lockwork.jobs import search as job_search
from lockwork.jobs.found import FoundJob
from lockwork.jobs.job import Job, Origin
from lockwork.jobs.search import FollowingPages, JobFilter, JobPage, Visible
from lockwork.protocol.effects import Protocol
from lockwork.protocol.index import index
from lockwork.protocol.keys import QueueKeys, base_queue, checked, checked_queue
from lockwork.protocol.queue import job_control
from lockwork.protocol.search import search
from lockwork.protocol.search.search import BulkChange, Progress
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.registry import Registry
from lockwork.validation import whole
from lockwork.workers import newest, read_apps


class JobSearch:
    """Finds one job by its id, or all that match a filter."""

    def __init__(self, runtime: Runtime, config: Config, registry: Registry) -> None:
        self._runtime = runtime
        self._config = config
        self._registry = registry

    def handle(self, id: str, queue: str | None) -> Job[Any]:
        """Return the handle of an existing job; see `Lockwork.job`."""
        partitions, errors = self._config.partitions, self._registry.context.errors
        if queue is None:
            names = [
                name
                for each in {"default": 0, **dict.fromkeys(self._registry.used_queues())}
                for name in partitions.names(each)
            ]
        else:
            names = [partitions.single(queue, "a job")]
        keys = [QueueKeys(self._config.prefix, name) for name in names]
        origins = [Origin(self._runtime, each, errors=errors) for each in keys]
        return FoundJob(origins, checked(id, "a job's id"), everywhere=queue is None)

    def pages(
        self, queue: str | None, limit: int, after: str | None, newest: bool, budget: int, matching: JobFilter
    ) -> Protocol[JobPage]:
        """Read a page that can be iterated over; see `Lockwork.jobs`."""

        def page(after: str | None) -> Protocol[JobPage]:
            return self.page(queue, limit, after, newest, budget, matching)

        return replace((yield from page(after)), _following=FollowingPages(self._runtime, page))

    def page(
        self,
        queue: str | None,
        limit: int,
        after: str | None,
        newest: bool,
        budget: int,
        matching: JobFilter,
        visible: Visible | None = None,
    ) -> Protocol[JobPage]:
        """Read a page of matching jobs; see `Lockwork.jobs`. `visible`: the jobs and values that a user may see."""
        parameters, visible = yield from self._tasks(matching, visible)
        criteria = job_search.read_filter(matching, newest, parameters, visible)
        most, records = job_search.read_limits(limit, budget)
        position = job_search.read_cursor(after, criteria.newest)
        names = yield from self._queue_names(None if queue is None else checked_queue(queue))
        keys = [QueueKeys(self._config.prefix, name) for name in names]
        return job_search.page((yield from search.search(keys, criteria, position, most, records)), visible)

    async def apage(
        self,
        visible: Visible,
        queue: str | None = None,
        *,
        limit: int = 50,
        after: str | None = None,
        newest: bool = True,
        budget: int = 1000,
        **matching: Unpack[JobFilter],
    ) -> JobPage:
        """Version of `Lockwork.ajobs` for a user with limited rights: fills the page with jobs that `visible` shows."""
        matching["hide_arguments"] = True
        return await self._runtime.arun(self.page(queue, limit, after, newest, budget, matching, visible))

    def change(
        self,
        action: Literal["cancel", "retry", "delete"],
        queue: str | None,
        limit: int | None,
        progress: Progress | None,
        matching: JobFilter,
    ) -> Protocol[BulkChange]:
        """Cancel, retry or delete all matching jobs; see `Lockwork.cancel_jobs`."""
        parameters, visible = yield from self._tasks(matching)
        criteria = job_search.read_filter(matching, True, parameters, visible, from_now_on=False)
        most = None if limit is None else whole(limit, "limit", 1, 1 << 40)
        progress = progress or (lambda _done, _searched: None)
        names = yield from self._queue_names(None if queue is None else checked_queue(queue))

        def change(keys: QueueKeys, id: str) -> Protocol[bool]:
            if action == "cancel":
                done = yield from job_control.cancel(keys, id, self._config.prefix, self._runtime.window_ms)
            elif action == "retry":
                done = yield from job_control.revive(keys, id)
            else:
                done = yield from job_control.delete(keys, id, self._runtime.window_ms)
            return done in ("cancelled", "running", "revived", "deleted") and (action, done) != ("delete", "running")

        keys = [QueueKeys(self._config.prefix, name) for name in names]
        return (yield from search.change_all(keys, criteria, action, change, most, progress))

    def _queue_names(self, queue: str | None) -> Protocol[list[str]]:
        """Return the partitions of a queue, or the queue itself; for None, all queues and partitions on the server."""
        if queue is not None and ("/" in queue or queue in self._config.partitions):
            return self._config.partitions.names(queue)
        queues = yield from index.queues(self._config.prefix)
        return [name for name in queues if queue is None or base_queue(name) == queue]

    def _tasks(
        self, matching: JobFilter, visible: Visible | None = None
    ) -> Protocol[tuple[dict[str, list[str]], Visible | None]]:
        """Return the parameters of all known tasks, and the visible fields, if the search needs them."""
        hides = bool(matching.get("hide_arguments")) and visible is None
        named = "=" in str(matching.get("arg", ""))
        if not hides and not named:
            return {}, visible
        try:
            apps = yield from read_apps(self._config.prefix)
        except ServerRefused:  # a user may have no right to read what apps announced
            apps = []
        announced = [task for app in newest(apps) for task in app.tasks]
        own = self._registry.of(self._registry.queues())
        if hides:
            hidden = {task.name for task in announced if task.hidden}
            visible = Visible(frozenset(hidden | {task.name for task in own if task.options_in_force.hide_arguments}))
        parameters = {task.name: task.positions for task in announced}
        return parameters | {task.name: task.signature.positions for task in own}, visible
