"""The handle of a schedule: pause, resume, inspect, or run it now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lockwork.errors import ConfigError
from lockwork.failures import Errors
from lockwork.ids import new_id
from lockwork.jobs.job import Job, Origin
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys, checked_queue
from lockwork.protocol.schedules import created, schedules
from lockwork.protocol.schedules.created import NEVER
from lockwork.protocol.schedules.schedules import SchedulePlan, StoredSchedule
from lockwork.protocol.scripts import codes
from lockwork.runtime.runtime import Runtime
from lockwork.schedules.options import Misfire, Overlap, StoredRules, checked_schedule, describe
from lockwork.schedules.plans import SchedulePlans
from lockwork.schedules.timing import Every, Timing
from lockwork.suggestions import closest
from lockwork.validation import whole

_MOST = 1000
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(3000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule as the server has it; times are in its time zone."""

    name: str
    queue: str
    task: str
    when: str
    """Cron line and time zone, or period; or, in parentheses, the reason why this process cannot read them."""
    misfire: Misfire
    overlap: Overlap
    declared: bool
    """True if a running worker has it in its code, or it is `created`; otherwise it does not fire, and is deleted after
    a day."""
    created: bool
    """True if `create_schedule` made it, and no code."""
    paused: bool
    next: tuple[datetime, ...]
    """The next slots; a paused schedule skips them."""
    last: datetime | None
    """The newest slot whose job was enqueued."""
    last_job: str | None
    """The job that was enqueued last, by a slot or by `run_now`."""
    enqueued: int
    """Number of enqueued jobs."""
    overlapped: int
    """Number of slots that it skipped because the last job had not ended."""
    missed: int
    """Number of slots that `misfire` skipped because no worker fired them in time; a gap counts as at most 1,000."""


class Schedule:
    """A handle to one schedule of a queue, by its name; it works without running workers."""

    def __init__(
        self,
        runtime: Runtime,
        prefix: str,
        name: str,
        queue: str,
        errors: Errors,
        plans: SchedulePlans,
        created: SchedulePlan | None = None,
    ) -> None:
        self.name: str = checked_schedule(name)
        self.queue: str = checked_queue(queue)
        self._runtime = runtime
        self._errors = errors
        self._plans = plans
        self._created_plan = created
        self._keys = QueueKeys(prefix, queue)

    def pause(self) -> bool:
        """Skip its slots until `resume`; False if there is none: no worker has declared it yet."""
        return self._runtime.run(schedules.pause(self._keys, self.name, paused=True))

    async def apause(self) -> bool:
        """Async version of `pause`."""
        return await self._runtime.arun(schedules.pause(self._keys, self.name, paused=True))

    def resume(self) -> bool:
        """Continue with the next slot after now; False if there is none: no worker has declared it yet."""
        return self._runtime.run(schedules.pause(self._keys, self.name, paused=False))

    async def aresume(self) -> bool:
        """Async version of `resume`."""
        return await self._runtime.arun(schedules.pause(self._keys, self.name, paused=False))

    def delete(self) -> bool:
        """Delete a schedule of `create_schedule`; False if there is none. Raises ConfigError if code declares it."""
        return self._runtime.run(self._delete())

    async def adelete(self) -> bool:
        """Async version of `delete`."""
        return await self._runtime.arun(self._delete())

    def run_now(self) -> Job[Any] | None:
        """Enqueue its job at once, even if it is paused; its slots do not change.

        None if it allows no overlap and the last job has not ended. Raises ConfigError if no worker has declared it.
        """
        return self._runtime.run(self._run_now())

    async def arun_now(self) -> Job[Any] | None:
        """Async version of `run_now`."""
        return await self._runtime.arun(self._run_now())

    def inspect(self, count: int = 1) -> ScheduleStatus | None:
        """Read its state and its next `count` slots; None if there is none: no worker has declared it yet."""
        return self._runtime.run(self._status(count))

    async def ainspect(self, count: int = 1) -> ScheduleStatus | None:
        """Async version of `inspect`."""
        return await self._runtime.arun(self._status(count))

    def upcoming(self, count: int, *, after: datetime | None = None) -> tuple[datetime, ...]:
        """Compute its next `count` slots from the code of this process, without the server.

        Unlike `inspect(count).next`, it needs no worker that has declared the schedule, and counts from the clock of
        this process.

        Args:
            count: number of slots, at most 1,000.
            after: the slots after this time, a datetime with a time zone. Default: now.

        Raises ConfigError if the code of this process has no such schedule, unless `create_schedule` returned this
        handle.
        """
        slots, begin = checked_count(count), int(time.time() * 1000) if after is None else _since_1970_ms(after)
        plan = self._created_plan or self._plans.get(self.queue, {}).get(self.name)
        if plan is None:
            close = closest(self.name, [name for plans in self._plans.values() for name in plans])
            hint = f"did you mean {close!r}?" if close else "import the module of its task, or read inspect(count).next"
            raise ConfigError(f"this process has no schedule {self.name!r} of queue {self.queue!r} in its code: {hint}")
        return _slots(describe(plan.definition).timing, begin, slots)

    def _delete(self) -> Protocol[bool]:
        code, replies = (yield from created.delete(self._keys, self.name)), codes("schedules/delete")
        in_code = self.name in self._plans.get(self.queue, {})
        if code == replies.declared or (in_code and code == replies.unknown):
            raise ConfigError(
                f"schedule {self.name!r} of queue {self.queue!r} is declared by code: remove it there, or pause it"
            )
        return bool(code == replies.deleted)

    def _run_now(self) -> Protocol[Job[Any] | None]:
        _, stored_schedule = yield from schedules.known(self._keys, self.name)
        results = codes("schedules/run")
        code, id = results.unknown, ""
        if stored_schedule is not None:
            overlap = describe(stored_schedule.definition).overlap == "allow"
            code, id = yield from schedules.run_now(self._keys, self.name, f"{self.name}@{new_id()}", overlap=overlap)
        if code == results.unknown:
            raise ConfigError(
                f"no schedule is named {self.name!r} in queue {self.queue!r}: a worker declares it at its start if "
                "its code has it, and lw.create_schedule(...) creates one"
            )
        return Job(Origin(self._runtime, self._keys, errors=self._errors), id) if code == results.started else None

    def _status(self, count: int) -> Protocol[ScheduleStatus | None]:
        slots = checked_count(count)
        now, stored_schedule = yield from schedules.known(self._keys, self.name)
        return None if stored_schedule is None else status(self.queue, stored_schedule, now, slots)

    def __repr__(self) -> str:
        return f"<Schedule {self.name!r} queue={self.queue!r}>"


def checked_count(count: object) -> int:
    """Check the number of slots to show; raises ConfigError."""
    return whole(count, "count", 0, _MOST)


def status(queue: str, known: StoredSchedule, now: int, count: int) -> ScheduleStatus:
    """Return the status of a stored schedule, with its next `count` slots."""
    try:
        rules = describe(known.definition)
    except ConfigError as error:  # such as a time zone that this system does not have; the others can be read
        rules = StoredRules("", f"({error})", Every(1000), "once", "allow")
        count = 0
    zone = rules.timing.zone
    return ScheduleStatus(
        name=known.name,
        queue=queue,
        task=rules.task,
        when=rules.when,
        misfire=rules.misfire,
        overlap=rules.overlap,
        declared=known.declared,
        created=known.created,
        paused=known.paused,
        next=_slots(rules.timing, max(known.cursor, now), count),
        last=datetime.fromtimestamp(known.slot / 1000, UTC).astimezone(zone) if known.slot else None,
        last_job=known.job or None,
        enqueued=known.enqueued,
        overlapped=known.overlapped,
        missed=known.missed,
    )


def _slots(timing: Timing, after: int, count: int) -> tuple[datetime, ...]:
    """Return the next slots after a time (ms since 1970), in the schedule's time zone."""
    slots, slot = list[datetime](), after
    for _ in range(count):
        slot = timing.after(slot)
        if slot >= NEVER:
            break
        slots.append(datetime.fromtimestamp(slot / 1000, UTC).astimezone(timing.zone))
    return tuple(slots)


def _since_1970_ms(after: object) -> int:
    if not isinstance(after, datetime) or after.utcoffset() is None or not _FIRST <= after <= _LAST:
        raise ConfigError(f"after must be a datetime with a time zone, between 1970 and 3000, not {after!r:.80}")
    return (after - _FIRST) // timedelta(milliseconds=1)
