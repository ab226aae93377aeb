"""The methods of `Lockwork` that search and change jobs of all queues."""

from __future__ import annotations

from typing import Literal, Unpack

from lockwork.app.state import AppState
from lockwork.errors import ServerRefused
from lockwork.jobs import search as job_search
from lockwork.jobs.search import JobFilter, JobPage
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys, base_queue, checked_queue
from lockwork.protocol.queues import browse, job_control, search
from lockwork.protocol.queues.search import Progress, StoredPage
from lockwork.validation import whole
from lockwork.workers import read_apps


class MonitoringMethods(AppState):
    """Searches of jobs, and changes of all matching jobs, in bounded steps."""

    def jobs(
        self,
        queue: str | None = None,
        *,
        limit: int = 50,
        after: str | None = None,
        newest: bool = True,
        budget: int = 1000,
        **matching: Unpack[JobFilter],
    ) -> JobPage:
        """Read up to `limit` jobs that match (see JobFilter): running, ready, scheduled, blocked, ended, in this order.

        The newest come first; of the scheduled ones, the next due. Jobs that change state during the search may be
        missed, or appear twice. Raises ConfigError.

        Args:
            queue: the name of a queue, or of a partition; None (default): all queues on the server.
            limit: maximum number of jobs per page, at most 1,000. Default 50.
            after: the `next` of the previous page.
            newest: False for the reverse order.
            budget: about how many records, or ten times as many ids, are read for the page. Default 1,000. If nothing
                was found, continue after `next`.
        """
        return job_search.page(self.runtime.run(self._jobs(queue, limit, after, newest, budget, matching)))

    async def ajobs(
        self,
        queue: str | None = None,
        *,
        limit: int = 50,
        after: str | None = None,
        newest: bool = True,
        budget: int = 1000,
        **matching: Unpack[JobFilter],
    ) -> JobPage:
        """Async version of `jobs`."""
        return job_search.page(await self.runtime.arun(self._jobs(queue, limit, after, newest, budget, matching)))

    def cancel_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> int:
        """Cancel up to `limit` waiting or running jobs that match (see JobFilter); returns the number.

        Cancels each job with a separate call, so it does not block the server. Calls `progress` with the number of jobs
        cancelled and records searched so far. If it is interrupted, call it again. Raises ConfigError.
        """
        return self.runtime.run(self._change("cancel", queue, limit, progress, matching))

    async def acancel_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> int:
        """Async version of `cancel_jobs`."""
        return await self.runtime.arun(self._change("cancel", queue, limit, progress, matching))

    def retry_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> int:
        """Run up to `limit` matching dead, cancelled and expired jobs again; see `cancel_jobs`."""
        return self.runtime.run(self._change("retry", queue, limit, progress, matching))

    async def aretry_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> int:
        """Async version of `retry_jobs`."""
        return await self.runtime.arun(self._change("retry", queue, limit, progress, matching))

    def delete_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> int:
        """Delete up to `limit` matching jobs that do not run, also from history; see `cancel_jobs`."""
        return self.runtime.run(self._change("delete", queue, limit, progress, matching))

    async def adelete_jobs(
        self,
        queue: str | None = None,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **matching: Unpack[JobFilter],
    ) -> int:
        """Async version of `delete_jobs`."""
        return await self.runtime.arun(self._change("delete", queue, limit, progress, matching))

    def _change(
        self,
        action: Literal["cancel", "retry", "delete"],
        queue: str | None,
        limit: int | None,
        progress: Progress | None,
        matching: JobFilter,
    ) -> Protocol[int]:
        parameters = yield from self._parameters(matching)
        wanted = job_search.read_filter(matching, True, parameters, from_now_on=False)
        most = None if limit is None else whole(limit, "limit", 1, 1 << 40)
        progress = progress or (lambda _done, _searched: None)
        names = yield from self._queue_names(None if queue is None else checked_queue(queue))

        def change(keys: QueueKeys, id: str) -> Protocol[bool]:
            if action == "cancel":
                done = yield from job_control.cancel(keys, id, self.config.prefix, self.runtime.window_ms)
            elif action == "retry":
                done = yield from job_control.revive(keys, id)
            else:
                done = yield from job_control.delete(keys, id, self.runtime.window_ms)
            return done in ("cancelled", "running", "revived", "deleted") and (action, done) != ("delete", "running")

        keys = [QueueKeys(self.config.prefix, name) for name in names]
        return (yield from search.change_all(keys, wanted, action, change, most, progress))

    def _jobs(
        self, queue: str | None, limit: int, after: str | None, newest: bool, budget: int, matching: JobFilter
    ) -> Protocol[StoredPage]:
        parameters = yield from self._parameters(matching)
        wanted = job_search.read_filter(matching, newest, parameters)
        most, records = job_search.read_limits(limit, budget)
        cursors = job_search.read_cursor(after)
        names = yield from self._queue_names(None if queue is None else checked_queue(queue))
        keys = [QueueKeys(self.config.prefix, name) for name in names]
        return (yield from search.search(keys, wanted, cursors, most, records))

    def _queue_names(self, queue: str | None) -> Protocol[list[str]]:
        """Return the queues and partitions that are meant."""
        if queue is not None and ("/" in queue or queue in self.config.partitions):
            return self.config.partitions.names(queue)
        found = yield from browse.find(self.config.prefix)
        return [name for name in found if queue is None or base_queue(name) == queue]

    def _parameters(self, matching: JobFilter) -> Protocol[dict[str, list[str]]]:
        """Return the names of the parameters of all tasks that are known, if jobs are searched by one."""
        if "=" not in str(matching.get("arg", "")):
            return {}
        try:
            apps = yield from read_apps(self.config.prefix)
        except ServerRefused:  # a user may have no right to read what apps announced
            apps = []
        known = {task.name: task.positions for app in sorted(apps, key=lambda app: app.seen) for task in app.tasks}
        own = self.registry.of(self.registry.queues())
        return known | {task.name: task.signature.positions for task in own}
