"""The methods of `Lockwork` for workers and apps, as they announce themselves on the server."""

from __future__ import annotations

from lockwork.app.state import AppState
from lockwork.workers import App, Worker, WorkerHandle, read_apps, read_workers


class WorkerMethods(AppState):
    """Workers and apps, of this app and of others with the same prefix."""

    def workers(self) -> list[Worker]:
        """The workers of the last hour, including lost ones."""
        return self.runtime.run(read_workers(self.config.prefix))

    async def aworkers(self) -> list[Worker]:
        """Async version of `workers`."""
        return await self.runtime.arun(read_workers(self.config.prefix))

    def worker(self, name: str) -> WorkerHandle:
        """The handle of a worker: `quiet`, `resume`, `stop`.

        Args:
            name: as `lw.workers()` has it.
        """
        return WorkerHandle(self.runtime, name)

    def apps(self) -> list[App]:
        """The apps that ran a worker or enqueued a job in the last 30 days, with tasks, partitions and schedules."""
        return self.runtime.run(read_apps(self.config.prefix))

    async def aapps(self) -> list[App]:
        """Async version of `apps`."""
        return await self.runtime.arun(read_apps(self.config.prefix))


def announced_partitions(lw: WorkerMethods) -> dict[str, int]:
    """The number of partitions of each partitioned queue, by this app's settings or else by what apps announced."""
    found: dict[str, int] = {}
    for app in sorted(lw.apps(), key=lambda app: app.seen):
        found |= app.partitions
    return found | dict(lw.config.partitions.counts)


async def aannounced_partitions(lw: WorkerMethods) -> dict[str, int]:
    """Async version of `announced_partitions`."""
    found: dict[str, int] = {}
    for app in sorted(await lw.aapps(), key=lambda app: app.seen):
        found |= app.partitions
    return found | dict(lw.config.partitions.counts)
