"""The dead sets of all partitions of a queue as one: asked one after the other, and what they say put together."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from lockwork.errors import ConfigError
from lockwork.ids import new_id
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import dead as protocol
from lockwork.protocol.queues import dead_moves
from lockwork.protocol.queues.dead import DeadGroup, DeadJob, DeadPage, Filter
from lockwork.queues.dead import DeadSet
from lockwork.runtime.runtime import Runtime


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
            if (yield from dead_moves.retry_one(each, id, new_id(), anew=anew)):
                return True
        return False

    def _delete(self, id: str) -> Protocol[bool]:
        for each in self._all:
            if (yield from dead_moves.delete_one(each, id, new_id())):
                return True
        return False

    def _retry_all(self, wanted: Filter, most: int | None, anew: bool) -> Protocol[int]:
        done = 0
        for each in self._all:
            if most is None or done < most:
                left = None if most is None else most - done
                done += yield from dead_moves.retry(each, wanted, new_id(), left, anew=anew)
        return done

    def _delete_all(self, wanted: Filter, most: int | None) -> Protocol[int]:
        done = 0
        for each in self._all:
            if most is None or done < most:
                left = None if most is None else most - done
                done += yield from dead_moves.delete(each, wanted, new_id(), left)
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
