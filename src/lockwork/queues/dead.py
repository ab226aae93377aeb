"""The dead jobs of a queue: search them, group them by error, run them again, or delete them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

from msgspec.structs import replace

from lockwork.config import check_names
from lockwork.durations import Duration, milliseconds
from lockwork.errors import ConfigError
from lockwork.ids import new_id
from lockwork.protocol.dead import dead as dead_protocol
from lockwork.protocol.dead.dead import DeadGroup, DeadJob, DeadPage, Filter
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys, checked
from lockwork.protocol.queue.records import raw
from lockwork.queues.limits import MOST
from lockwork.runtime.runtime import Runtime
from lockwork.validation import whole


class Matching(TypedDict, total=False):
    """Filters of dead jobs; an omitted option matches all dead jobs."""

    task: str
    """The task's name."""
    error: str
    """The name of the error's type, such as "ValueError"."""
    text: str
    """A part of the error's type or text; case-sensitive."""
    older_than: Duration
    """Minimum time since it died."""
    newer_than: Duration
    """Maximum time since it died."""


class DeadSet:
    """A handle to the dead jobs of one queue, in all its partitions.

    An operation on many jobs works in steps, so it never blocks the server. If it is interrupted, some of the jobs have
    changed, and you can call it again.
    """

    def __init__(self, runtime: Runtime, partitions: Sequence[QueueKeys], queue: str) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._queue = queue

    def count(self, **matching: Unpack[Matching]) -> int:
        """Count the jobs that match, without jobs that die meanwhile; for options see Matching.

        Raises ConfigError, as all methods here.
        """
        return self._runtime.run(self._count(checked_filter(matching)))

    async def acount(self, **matching: Unpack[Matching]) -> int:
        """Async version of `count`."""
        return await self._runtime.arun(self._count(checked_filter(matching)))

    def search(self, *, limit: int = 100, after: str = "", **matching: Unpack[Matching]) -> DeadPage:
        """Read up to `limit` jobs that match, the newest first; `after` is the `next` of the previous page.

        It omits the arguments of a job with a long record; `get` returns them, and the traceback.
        """
        return self._runtime.run(self._page(checked_filter(matching), after, _most(limit)))

    async def asearch(self, *, limit: int = 100, after: str = "", **matching: Unpack[Matching]) -> DeadPage:
        """Async version of `search`."""
        return await self._runtime.arun(self._page(checked_filter(matching), after, _most(limit)))

    def get(self, id: str) -> DeadJob | None:
        """Read one job completely; None if it is not dead."""
        return self._runtime.run(self._get(_id(id)))

    async def aget(self, id: str) -> DeadJob | None:
        """Async version of `get`."""
        return await self._runtime.arun(self._get(_id(id)))

    def groups(self, **matching: Unpack[Matching]) -> list[DeadGroup]:
        """Group the jobs that match by error and task, the largest group first, without jobs that die meanwhile.

        Reads every matching job.
        """
        return self._runtime.run(self._groups(checked_filter(matching)))

    async def agroups(self, **matching: Unpack[Matching]) -> list[DeadGroup]:
        """Async version of `groups`."""
        return await self._runtime.arun(self._groups(checked_filter(matching)))

    def retry(self, id: str, *, anew: bool = True) -> bool:
        """Make one job ready to run again; False if it is not dead.

        With `anew`, its attempts start at 1 again; otherwise they continue, so used attempts stay used.
        """
        return self._runtime.run(self._retry(_id(id), anew))

    async def aretry(self, id: str, *, anew: bool = True) -> bool:
        """Async version of `retry`."""
        return await self._runtime.arun(self._retry(_id(id), anew))

    def retry_all(self, *, anew: bool = True, limit: int | None = None, **matching: Unpack[Matching]) -> int:
        """Make up to `limit` matching jobs ready to run again, the oldest first; returns the number.

        It does not retry jobs that die after it began.
        """
        return self._runtime.run(self._retry_all(checked_filter(matching), _all_or(limit), anew))

    async def aretry_all(self, *, anew: bool = True, limit: int | None = None, **matching: Unpack[Matching]) -> int:
        """Async version of `retry_all`."""
        return await self._runtime.arun(self._retry_all(checked_filter(matching), _all_or(limit), anew))

    def delete(self, id: str) -> bool:
        """Delete one job; False if it is not dead."""
        return self._runtime.run(self._delete(_id(id)))

    async def adelete(self, id: str) -> bool:
        """Async version of `delete`."""
        return await self._runtime.arun(self._delete(_id(id)))

    def delete_all(self, *, limit: int | None = None, **matching: Unpack[Matching]) -> int:
        """Delete up to `limit` matching jobs, the oldest first; returns the number."""
        return self._runtime.run(self._delete_all(checked_filter(matching), _all_or(limit)))

    async def adelete_all(self, *, limit: int | None = None, **matching: Unpack[Matching]) -> int:
        """Async version of `delete_all`."""
        return await self._runtime.arun(self._delete_all(checked_filter(matching), _all_or(limit)))

    def _count(self, wanted: Filter) -> Protocol[int]:
        total = 0
        for partition in self._partitions:
            total += yield from dead_protocol.count(partition, wanted)
        return total

    def _groups(self, wanted: Filter) -> Protocol[list[DeadGroup]]:
        same: defaultdict[tuple[str, str], list[DeadGroup]] = defaultdict(list)
        for partition in self._partitions:
            for group in (yield from dead_protocol.groups(partition, wanted)):
                same[group.error, group.task or ""].append(group)
        return [_merged(same[kind]) for kind in sorted(same, key=lambda kind: (-_jobs(same[kind]), kind))]

    def _get(self, id: str) -> Protocol[DeadJob | None]:
        for partition in self._partitions:
            job = yield from dead_protocol.get(partition, id)
            if job is not None:
                return job
        return None

    def _retry(self, id: str, anew: bool) -> Protocol[bool]:
        for partition in self._partitions:
            if (yield from dead_protocol.retry_one(partition, id, new_id(), anew=anew)):
                return True
        return False

    def _delete(self, id: str) -> Protocol[bool]:
        for partition in self._partitions:
            if (yield from dead_protocol.delete_one(partition, id, new_id())):
                return True
        return False

    def _retry_all(self, wanted: Filter, most: int | None, anew: bool) -> Protocol[int]:
        return self._up_to(most, lambda keys, left: dead_protocol.retry(keys, wanted, new_id(), left, anew=anew))

    def _delete_all(self, wanted: Filter, most: int | None) -> Protocol[int]:
        return self._up_to(most, lambda keys, left: dead_protocol.delete(keys, wanted, new_id(), left))

    def _up_to(self, most: int | None, change: Callable[[QueueKeys, int | None], Protocol[int]]) -> Protocol[int]:
        """Change `most` jobs, partition by partition; returns how many."""
        done = 0
        for partition in self._partitions:
            if most is None or done < most:
                done += yield from change(partition, None if most is None else most - done)
        return done

    def _page(self, wanted: Filter, after: str, most: int) -> Protocol[DeadPage]:
        """Read a page of each partition, and show the newest jobs of all; the next page begins after them."""
        cursor = _cursor(after)
        pages = []
        for partition in self._partitions:
            page = yield from dead_protocol.page(partition, wanted, cursor, most, newest=True)
            pages.append(page)
        jobs = [job for page in pages for job in page.jobs]
        jobs.sort(key=lambda job: (float(job.died), raw(job.id)), reverse=True)
        problem = next((page.problem for page in pages if page.problem), None)
        read_at = max((page.at_ms for page in pages), default=0)
        result = DeadPage(jobs[:most], None, problem, read_at)
        if result.jobs and (len(jobs) > most or any(page.next for page in pages)):
            result = replace(result, next=dead_protocol.behind(result, result.jobs[-1]))
        return result

    def __repr__(self) -> str:
        return f"<DeadSet of queue {self._queue!r}>"


def _most(limit: object) -> int:
    return whole(limit, "limit", 1, MOST)


def _all_or(limit: int | None) -> int | None:
    return None if limit is None else _most(limit)


def _id(id: object) -> str:
    # other programs may have put a job with any id into the dead set
    if not isinstance(id, str) or not id:
        raise ConfigError(f"a job's id is text, not {id!r}")
    return id


def _cursor(after: object) -> str:
    """Check the `next` of a page; raises ConfigError."""
    try:
        if not isinstance(after, str):
            raise TypeError(after)
        if after:
            dead_protocol.check_cursor(after)
    except (ValueError, TypeError):
        raise ConfigError(f"after is the `next` of an earlier page, not {after!r:.80}") from None
    return after


def checked_filter(matching: Matching) -> Filter:
    """Check what to search by; raises ConfigError."""
    check_names(matching, Matching, "dead jobs cannot be searched by")
    task, error, text = matching.get("task"), matching.get("error"), matching.get("text")
    for name, value in (("error", error), ("text", text)):
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{name} is text, not {value!r}")
    return Filter(
        None if task is None else checked(task, "a task's name"),
        error,
        text,
        _age(matching.get("older_than"), "older_than"),
        _age(matching.get("newer_than"), "newer_than"),
    )


def _age(value: Duration | None, what: str) -> int | None:
    return None if value is None else milliseconds(value, what, zero=True)


def _jobs(groups: Sequence[DeadGroup]) -> int:
    return sum(group.count for group in groups)


def _merged(groups: Sequence[DeadGroup]) -> DeadGroup:
    """Make one group of the same groups of several partitions."""
    newest = min(groups, key=lambda group: group.newest)
    oldest = max(group.oldest for group in groups)
    return DeadGroup(newest.error, newest.task, _jobs(groups), oldest, newest.newest, newest.example)
