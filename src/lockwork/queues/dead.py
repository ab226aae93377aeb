"""The dead set of a queue as its operators see it: search it, group it by error, run its jobs again, or delete them."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Sequence
from typing import TypedDict, Unpack

import msgspec

from lockwork.config import check_names
from lockwork.durations import Duration, milliseconds
from lockwork.errors import ConfigError
from lockwork.ids import new_id
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys, checked
from lockwork.protocol.queues import dead
from lockwork.protocol.queues import dead as protocol
from lockwork.protocol.queues.dead import DeadGroup, DeadJob, DeadPage, Filter
from lockwork.runtime.runtime import Runtime


class Matching(TypedDict, total=False):
    """Which dead jobs are meant; what is left out does not matter."""

    task: str
    """The task's name."""
    error: str
    """The name of the error's type, such as "ValueError"."""
    text: str
    """What the error's type or text contains, in the same letters."""
    older_than: Duration
    """How long ago it died, at least."""
    newer_than: Duration
    """How long ago it died, at most."""


class DeadSet:
    """A handle to the dead jobs of one queue.

    What is done to many jobs is done in steps, so that the server never stops for it; interrupted, it has been done to
    some of them, and can be done again.
    """

    def __init__(self, runtime: Runtime, keys: QueueKeys, queue: str) -> None:
        self._runtime = runtime
        self._keys = keys
        self._queue = queue

    def count(self, **matching: Unpack[Matching]) -> int:
        """Count the jobs that match; for options see Matching. Raises ConfigError, as all methods here."""
        return self._runtime.run(self._count(checked_filter(matching)))

    async def acount(self, **matching: Unpack[Matching]) -> int:
        """Async version of `count`."""
        return await self._runtime.arun(self._count(checked_filter(matching)))

    def search(self, *, limit: int = 100, after: str = "", **matching: Unpack[Matching]) -> DeadPage:
        """Read up to `limit` jobs that match, the newest first; `after` is the `next` of the page before.

        Of a job with a long record its arguments are left out; `get` has them, and the traceback.
        """
        return self._runtime.run(self._page(checked_filter(matching), after, positive(limit, "limit")))

    async def asearch(self, *, limit: int = 100, after: str = "", **matching: Unpack[Matching]) -> DeadPage:
        """Async version of `search`."""
        return await self._runtime.arun(self._page(checked_filter(matching), after, positive(limit, "limit")))

    def get(self, id: str) -> DeadJob | None:
        """Read all of one job; None when it is not dead."""
        return self._runtime.run(self._get(_id(id)))

    async def aget(self, id: str) -> DeadJob | None:
        """Async version of `get`."""
        return await self._runtime.arun(self._get(_id(id)))

    def groups(self, **matching: Unpack[Matching]) -> list[DeadGroup]:
        """Group the jobs that match by error and task, the largest group first."""
        return self._runtime.run(self._groups(checked_filter(matching)))

    async def agroups(self, **matching: Unpack[Matching]) -> list[DeadGroup]:
        """Async version of `groups`."""
        return await self._runtime.arun(self._groups(checked_filter(matching)))

    def retry(self, id: str, *, anew: bool = True) -> bool:
        """Make one job ready to run again; False when it is not dead.

        `anew`: its attempts begin at 1 again; else they go on, so what it has used up is used up.
        """
        return self._runtime.run(self._retry(_id(id), anew))

    async def aretry(self, id: str, *, anew: bool = True) -> bool:
        """Async version of `retry`."""
        return await self._runtime.arun(self._retry(_id(id), anew))

    def retry_all(self, *, anew: bool = True, limit: int | None = None, **matching: Unpack[Matching]) -> int:
        """Make all jobs that match ready to run again, or `limit` of them, the oldest first; returns how many.

        Those that die while this goes on are not meant.
        """
        return self._runtime.run(self._retry_all(checked_filter(matching), _most(limit), anew))

    async def aretry_all(self, *, anew: bool = True, limit: int | None = None, **matching: Unpack[Matching]) -> int:
        """Async version of `retry_all`."""
        return await self._runtime.arun(self._retry_all(checked_filter(matching), _most(limit), anew))

    def delete(self, id: str) -> bool:
        """Delete one job; False when it is not dead."""
        return self._runtime.run(self._delete(_id(id)))

    async def adelete(self, id: str) -> bool:
        """Async version of `delete`."""
        return await self._runtime.arun(self._delete(_id(id)))

    def delete_all(self, *, limit: int | None = None, **matching: Unpack[Matching]) -> int:
        """Delete all jobs that match, or `limit` of them, the oldest first; returns how many."""
        return self._runtime.run(self._delete_all(checked_filter(matching), _most(limit)))

    async def adelete_all(self, *, limit: int | None = None, **matching: Unpack[Matching]) -> int:
        """Async version of `delete_all`."""
        return await self._runtime.arun(self._delete_all(checked_filter(matching), _most(limit)))

    def _count(self, wanted: Filter) -> Protocol[int]:
        return protocol.count(self._keys, wanted)

    def _groups(self, wanted: Filter) -> Protocol[list[DeadGroup]]:
        return protocol.groups(self._keys, wanted)

    def _get(self, id: str) -> Protocol[DeadJob | None]:
        return protocol.get(self._keys, id)

    def _retry(self, id: str, anew: bool) -> Protocol[bool]:
        return dead.retry_one(self._keys, id, new_id(), anew=anew)

    def _delete(self, id: str) -> Protocol[bool]:
        return dead.delete_one(self._keys, id, new_id())

    def _page(self, wanted: Filter, after: str, most: int) -> Protocol[DeadPage]:
        return protocol.page(self._keys, wanted, _cursor(after), most, newest=True)

    def _retry_all(self, wanted: Filter, most: int | None, anew: bool) -> Protocol[int]:
        return dead.retry(self._keys, wanted, new_id(), most, anew=anew)

    def _delete_all(self, wanted: Filter, most: int | None) -> Protocol[int]:
        return dead.delete(self._keys, wanted, new_id(), most)

    def __repr__(self) -> str:
        return f"<DeadSet of queue {self._queue!r}>"


def positive(number: object, what: str) -> int:
    """Return a count of 1 or more; raises ConfigError."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ConfigError(f"{what} must be a whole number of 1 or more, not {number!r}")
    return number


def _most(limit: int | None) -> int | None:
    return None if limit is None else positive(limit, "limit")


def _id(id: object) -> str:
    # not only ids that we give out: whatever came into the dead set can be taken out of it
    if not isinstance(id, str) or not id:
        raise ConfigError(f"a job's id is text, not {id!r}")
    return id


def _cursor(after: object) -> str:
    """Return the `next` of a page, or ''; raises ConfigError."""
    if after != "":
        try:
            if not isinstance(after, str):
                raise TypeError(after)
            protocol.check_cursor(after)
        except (ValueError, TypeError):
            raise ConfigError(f"after is the `next` of an earlier page, not {after!r}") from None
    return str(after)


def checked_filter(matching: Matching) -> Filter:
    """Return what is searched by, if usable; raises ConfigError."""
    check_names(matching, Matching, "dead jobs cannot be searched by")
    task, error, text = matching.get("task"), matching.get("error"), matching.get("text")
    for name, given in (("error", error), ("text", text)):
        if given is not None and not isinstance(given, str):
            raise ConfigError(f"{name} is text, not {given!r}")
    return Filter(
        None if task is None else checked(task, "a task's name"),
        error,
        text,
        _age(matching.get("older_than"), "older_than"),
        _age(matching.get("newer_than"), "newer_than"),
    )


def _age(given: Duration | None, what: str) -> int | None:
    return None if given is None else milliseconds(given, what, zero=True)


class PartitionedDeadSet(DeadSet):
    """What DeadSet is for one queue."""

    def __init__(self, runtime: Runtime, keys: Sequence[QueueKeys], queue: str) -> None:
        super().__init__(runtime, keys[0], queue)
        self._all = keys

    def _count(self, wanted: Filter) -> Protocol[int]:
        found = 0
        for each in self._all:
            found += yield from protocol.count(each, wanted)
        return found

    def _groups(self, wanted: Filter) -> Protocol[list[DeadGroup]]:
        same: defaultdict[tuple[str, str], list[DeadGroup]] = defaultdict(list)
        for each in self._all:
            for group in (yield from protocol.groups(each, wanted)):
                same[group.error, group.task or ""].append(group)
        return [_one(same[kind]) for kind in sorted(same, key=lambda kind: (-_jobs(same[kind]), kind))]

    def _get(self, id: str) -> Protocol[DeadJob | None]:
        for each in self._all:
            job = yield from protocol.get(each, id)
            if job is not None:
                return job
        return None

    def _retry(self, id: str, anew: bool) -> Protocol[bool]:
        for each in self._all:
            if (yield from dead.retry_one(each, id, new_id(), anew=anew)):
                return True
        return False

    def _delete(self, id: str) -> Protocol[bool]:
        for each in self._all:
            if (yield from dead.delete_one(each, id, new_id())):
                return True
        return False

    def _retry_all(self, wanted: Filter, most: int | None, anew: bool) -> Protocol[int]:
        done = 0
        for each in self._all:
            if most is None or done < most:
                left = None if most is None else most - done
                done += yield from dead.retry(each, wanted, new_id(), left, anew=anew)
        return done

    def _delete_all(self, wanted: Filter, most: int | None) -> Protocol[int]:
        done = 0
        for each in self._all:
            if most is None or done < most:
                left = None if most is None else most - done
                done += yield from dead.delete(each, wanted, new_id(), left)
        return done

    def _page(self, wanted: Filter, after: str, most: int) -> Protocol[DeadPage]:
        places = _read(after, len(self._all))
        found: list[tuple[DeadJob, int]] = []
        pages: dict[int, DeadPage] = {}
        for number, place in enumerate(places):
            if place is not None:  # None: all of that partition has been seen
                pages[number] = yield from protocol.page(self._all[number], wanted, place, most, newest=True)
                found += [(job, number) for job in pages[number].jobs]
        found.sort(key=lambda each: -float(each[0].died))  # those of one partition stay in their order
        shown = found[:most]
        for number, page in pages.items():
            mine = [job for job, whose in shown if whose == number]
            if len(mine) == len(page.jobs):
                places[number] = page.next
            elif mine:
                places[number] = protocol.behind(page, mine[-1])
            elif not places[number]:
                places[number] = protocol.begun(page)
        problems = [page.problem for page in pages.values() if page.problem]
        more = any(place is not None for place in places)
        return DeadPage([job for job, _ in shown], _token(places) if more else None, problems[0] if problems else None)


def _jobs(groups: Sequence[DeadGroup]) -> int:
    return sum(group.count for group in groups)


def _one(groups: Sequence[DeadGroup]) -> DeadGroup:
    """One group of those of several partitions."""
    newest = min(groups, key=lambda group: group.newest)
    oldest = max(group.oldest for group in groups)
    return DeadGroup(newest.error, newest.task, _jobs(groups), oldest, newest.newest, newest.example)


def _token(places: Sequence[str | None]) -> str:
    """Where each partition goes on: '' at its beginning, None when all of it has been seen."""
    return urlsafe_b64encode(msgspec.json.encode(places)).decode()


def _read(after: object, partitions: int) -> list[str | None]:
    if after == "":
        return [""] * partitions
    try:
        if not isinstance(after, str):
            raise TypeError(after)
        places = msgspec.json.decode(urlsafe_b64decode(after), type=list[str | None])
        for place in places:
            if place:
                protocol.check_cursor(place)
        if len(places) != partitions:
            raise ValueError(after)
    except (ValueError, TypeError, msgspec.MsgspecError):
        raise ConfigError(
            f"after is the `next` of an earlier page of a queue of {partitions} partitions, not {after!r:.80}"
        ) from None
    return places
