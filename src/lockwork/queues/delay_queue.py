"""The handle of a delay queue: `lw.delay_queue("orders").add("42", delay="30m")`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError
from lockwork.ids import new_id
from lockwork.naming import literal
from lockwork.protocol import keys, names
from lockwork.protocol.delay_queue import delay_queue
from lockwork.protocol.delay_queue.delay_queue import DelayQueueEntry
from lockwork.protocol.effects import Protocol
from lockwork.runtime.runtime import Runtime
from lockwork.validation import one_of, whole

OnDuplicate = Literal["keep", "replace"]
MOST = 10_000
"""Maximum entries that one call returns."""
_LONGEST = 512
_LATEST = 1 << 53
"""Maximum time, because the server stores times as doubles, which are exact up to it."""


class DelayQueue:
    """Unique ids in order of due time; threads and asyncio tasks may share a handle.

    At most one caller takes each id, and the id is lost if that caller crashes: use jobs for work that must survive.
    """

    def __init__(self, runtime: Runtime, prefix: str, name: str) -> None:
        self.name: str = literal(name, "a delay queue's name")
        self._runtime = runtime
        self._keys = keys.delay_queue(prefix, name)

    def add(
        self,
        ids: str | Iterable[str],
        delay: Duration = 0,
        *,
        at: datetime | None = None,
        on_duplicate: OnDuplicate = "keep",
    ) -> int:
        """Queue one id or many, due after `delay` or at `at`; returns how many were added or moved.

        An id that is already queued keeps its time, or moves to the new time with "replace". Ids with the same time are
        ordered by their bytes. If a call with more than 1,000 ids is interrupted, it may have queued some ids.
        """
        return self._runtime.run(self._add(ids, delay, at, on_duplicate))

    async def aadd(
        self,
        ids: str | Iterable[str],
        delay: Duration = 0,
        *,
        at: datetime | None = None,
        on_duplicate: OnDuplicate = "keep",
    ) -> int:
        """Async version of `add`."""
        return await self._runtime.arun(self._add(ids, delay, at, on_duplicate))

    def pop(self, limit: int = 1, *, wait: Duration | None = 0) -> list[DelayQueueEntry]:
        """Take up to `limit` due entries, the oldest first; if there are none, wait until one is due.

        `wait` limits the time to wait (0: do not wait, None: no limit). If it is interrupted, it puts the entries back.
        Raises ServerUnavailable if the server cannot be reached; taken entries may then be lost.
        """
        return self._runtime.run(self._pop(limit, wait))

    async def apop(self, limit: int = 1, *, wait: Duration | None = 0) -> list[DelayQueueEntry]:
        """Async version of `pop`; if cancelled, it puts the entries back."""
        return await self._runtime.arun(self._pop(limit, wait))

    def peek(self, limit: int = 1, *, due: bool = True) -> list[DelayQueueEntry]:
        """Read the entries that `pop` would take; with `due=False`, also entries that are not due yet."""
        return self._runtime.run(delay_queue.peek(self._keys, _most(limit), due=due))

    async def apeek(self, limit: int = 1, *, due: bool = True) -> list[DelayQueueEntry]:
        """Async version of `peek`."""
        return await self._runtime.arun(delay_queue.peek(self._keys, _most(limit), due=due))

    def remove(self, id: str, score: int | None = None) -> bool:
        """Remove an entry, due or not; with the `score` that was read, only if it has not been moved since."""
        return self._runtime.run(self._remove(id, score))

    async def aremove(self, id: str, score: int | None = None) -> bool:
        """Async version of `remove`."""
        return await self._runtime.arun(self._remove(id, score))

    def clear(self) -> int:
        """Remove all entries; returns their number."""
        return self._runtime.run(delay_queue.clear(self._keys, new_id()))

    async def aclear(self) -> int:
        """Async version of `clear`."""
        return await self._runtime.arun(delay_queue.clear(self._keys, new_id()))

    def len(self) -> int:
        """Count the entries, due or not."""
        return self._runtime.run(delay_queue.count(self._keys))

    async def alen(self) -> int:
        """Async version of `len`."""
        return await self._runtime.arun(delay_queue.count(self._keys))

    def __len__(self) -> int:
        return self.len()

    def __bool__(self) -> bool:
        return True  # a handle, also of an empty queue: asking the server here would be a trap

    def _add(
        self, ids: str | Iterable[str], delay: Duration, at: datetime | None, on_duplicate: OnDuplicate
    ) -> Protocol[int]:
        checked = [_id(ids)] if isinstance(ids, str) or not isinstance(ids, Iterable) else [_id(id) for id in ids]
        chosen = one_of(on_duplicate, "on_duplicate", ("keep", "replace"))
        delay_us = round(seconds(delay, "delay", zero=True) * 1_000_000)
        if at is not None and delay_us:
            raise ConfigError("pass a delay or a time, not both")
        moment = None if at is None else _moment(at)
        return delay_queue.add(self._keys, new_id(), checked, moment, delay_us, replace=chosen == "replace")

    def _pop(self, limit: int, wait: Duration | None) -> Protocol[list[DelayQueueEntry]]:
        patience = None if wait is None else seconds(wait, "wait", zero=True)
        return delay_queue.pop(self._keys, new_id(), self._runtime.channel, _most(limit), patience)

    def _remove(self, id: str, score: int | None) -> Protocol[bool]:
        if score is not None and (isinstance(score, bool) or not isinstance(score, int)):
            raise ConfigError(f"a score is a whole number of microseconds, as in an entry, not {score!r}")
        return delay_queue.remove(self._keys, new_id(), _id(id), score)

    def __repr__(self) -> str:
        return f"<DelayQueue {names.display(self.name)!r}>"


def _id(id: object) -> str:
    if not isinstance(id, str) or not 1 <= len(id) <= _LONGEST:
        raise ConfigError(f"an id is text of 1 to {_LONGEST} characters, not {id!r:.80}")
    try:
        delay_queue.stored(id)
    except UnicodeEncodeError:
        raise ConfigError(f"an id must be text that UTF-8 can hold, not {id!r:.80}") from None
    return id


def _most(limit: object) -> int:
    return whole(limit, "limit", 1, MOST)


def _moment(at: object) -> int:
    if not isinstance(at, datetime) or at.tzinfo is None or at.utcoffset() is None:
        raise ConfigError(f"at must be a datetime with a time zone, not {at!r}")
    moment = delay_queue.score(at)
    if not 0 <= moment < _LATEST:
        raise ConfigError(f"at must lie between 1970 and 2255, not {at!r}")
    return moment
