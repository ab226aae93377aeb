"""The options of a schedule, checked, and the plan that they make with a call of a task."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from inspect import get_annotations
from typing import Any, Literal, TypedDict, get_args

import msgspec
from msgspec import Struct

from lockwork import codecs, words
from lockwork.config import check_names
from lockwork.durations import Duration, milliseconds
from lockwork.errors import ConfigError
from lockwork.hashes import sha1
from lockwork.ids import is_own
from lockwork.payloads.payloads import Payloads
from lockwork.protocol.keys import checked
from lockwork.protocol.queue import record_header
from lockwork.protocol.schedules.created import SlotRules
from lockwork.protocol.schedules.schedules import SchedulePlan
from lockwork.schedules.timing import At, Cron, Every, Timing, zone_name
from lockwork.tasks.call import TaskCall
from lockwork.tasks.options import TaskSettings
from lockwork.tasks.task import Task
from lockwork.validation import one_of, whole

Misfire = Literal["once", "skip", "all"]
Overlap = Literal["allow", "skip"]
_LONGEST_NAME = 150
_MOST = 1000


class ScheduleSettings(TypedDict, total=False):
    """The options of a schedule; `cron` or `every` is required."""

    cron: str
    """Five fields, as in "0 9 * * mon-fri", or @hourly, @daily, @weekly, @monthly, @yearly."""
    tz: str
    """The time zone of the cron line, such as "Europe/Berlin"; UTC unless given."""
    every: Duration
    """Instead of a cron line: a period of 1 s at least, counted from 1970 in UTC."""
    misfire: Misfire
    """Slots that were missed because no worker ran: "once" (unless given) enqueues the newest, "skip" the newest if it
    is not later than `grace`, "all" every missed slot, at most `catch_up`."""
    grace: Duration
    """For "skip": maximum delay of a slot; default 1 minute."""
    catch_up: int
    """For "all": maximum number of slots to enqueue, the newest; default 100."""
    overlap: Overlap
    """"skip" omits a slot while the job of the last one has not ended; "allow" unless given."""


class CreatedScheduleSettings(ScheduleSettings, total=False):
    """The options of a schedule that is created at run time; one of `cron`, `every` and `at` is required."""

    at: datetime
    """Instead of `cron` and `every`: one moment, a datetime with a time zone. After it, the schedule is deleted."""


class ScheduledTaskSettings(TaskSettings, ScheduleSettings, total=False):
    """The options of `lw.task`; `cron` or `every` schedules a call without arguments."""


def split(given: ScheduledTaskSettings) -> tuple[TaskSettings, ScheduleSettings]:
    """Separate a task's options from the options of its schedule; raises ConfigError."""
    ours = get_annotations(ScheduleSettings)
    timing: Any = {name: value for name, value in given.items() if name in ours}
    own: Any = {name: value for name, value in given.items() if name not in ours}
    if timing:
        ScheduleRules.read(timing)
    return own, timing


def call_without_arguments(task: Task[Any, Any, Any]) -> TaskCall:
    """Return the call of a task with schedule options, without arguments; raises ConfigError if it needs any."""
    try:
        return task.call()
    except TypeError as error:
        raise ConfigError(
            f"task {task.name!r} needs arguments ({error}): schedule a call of it with lw.schedule(...) instead"
        ) from None


class _Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form of a schedule, for other processes."""

    task: str
    cron: str = ""
    tz: str = ""
    every: int = 0
    """ms"""
    at: int = 0
    """ms since 1970"""
    misfire: Misfire = "once"
    overlap: Overlap = "allow"
    grace: int = 0
    """ms"""
    catch_up: int = 1


class _KnownDefinition(_Definition, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A definition without fields of a later version, which may change its slots."""


class ScheduleRules(Struct, frozen=True):
    """The checked options of a schedule, without its call."""

    timing: Timing
    definition: _Definition

    @classmethod
    def read(cls, given: CreatedScheduleSettings | ScheduleSettings, *, created: bool = False) -> ScheduleRules:
        """Check the options; raises ConfigError. created: the schedule is created at run time, and may have `at`."""
        if "at" in given and not created:
            raise ConfigError(
                "a schedule in code has cron= or every=. For one moment, use lw.create_schedule(..., at=...), or "
                "task.options(at=...).enqueue(...)"
            )
        check_names(given, CreatedScheduleSettings if created else ScheduleSettings, "a schedule has no option")
        if sum(name in given for name in ("cron", "every", "at")) != 1:
            raise ConfigError(f"a schedule has cron= or every={' or at=' if created else ''}, one of them")
        if "tz" in given and "cron" not in given:
            raise ConfigError("tz= is the time zone of a cron line; every= has none, and at= has its own")
        misfire: Misfire = one_of(given.get("misfire", "once"), "misfire", get_args(Misfire))
        for name, policy in (("grace", "skip"), ("catch_up", "all")):
            if name in given and misfire != policy:
                raise ConfigError(f'{name}= is for misfire="{policy}", not for misfire="{misfire}"')
        count = whole(given.get("catch_up", 100), "catch_up", 1, _MOST)
        definition = _Definition(
            "",
            misfire=misfire,
            overlap=one_of(given.get("overlap", "allow"), "overlap", get_args(Overlap)),
            grace=milliseconds(given.get("grace", 60), "grace") if misfire == "skip" else 0,
            catch_up=count if misfire == "all" else 1,
        )
        if "every" in given:
            return cls(Every.read(given["every"]), _changed(definition, every=milliseconds(given["every"], "every")))
        if "at" in given:
            moment = At.read(given.get("at"))
            return cls(moment, _changed(definition, at=moment.moment))
        line = given.get("cron", "")
        timing = Cron(line, given.get("tz", "UTC"))
        return cls(timing, _changed(definition, cron=" ".join(line.split()), tz=zone_name(timing.zone)))

    def plan(self, name: str, call: TaskCall, payloads: Payloads | None = None) -> SchedulePlan:
        """Make the plan of this call, encrypted or signed if its queue has a codec; raises ConfigError."""
        if call.delay_ms:
            raise ConfigError(f"schedule {name!r} enqueues at fixed times, so its call cannot have a delay")
        call.check_alone()
        definition = msgspec.json.encode(_changed(self.definition, task=_task(call)))
        digested, record = [definition, call.record], call.record
        if payloads is not None and (key := payloads.newest_key(call.queue)):
            # two processes encrypt differently; with a new key, the definition is stored again
            digested.append(key.encode())
            record = payloads.seal_call(call.queue, name, record, "schedule")
        digest = sha1(b"\0".join(digested), usedforsecurity=False).hexdigest()
        return SchedulePlan(
            name=checked_schedule(name),
            digest=digest,
            timing=self.timing.text,
            definition=definition,
            record=record,
            rules=_slot_rules(self.timing, self.definition),
            begin=max(0, self.timing.moment - 1) if isinstance(self.timing, At) else 0,
        )


class StoredRules(Struct, frozen=True):
    """A stored definition, read."""

    task: str
    when: str
    timing: Timing
    misfire: Misfire
    overlap: Overlap


def describe(stored: bytes) -> StoredRules:
    """Read a definition that another process may have stored; raises ConfigError."""
    try:
        content = msgspec.json.decode(stored, type=_Definition)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"a schedule's definition on the server cannot be read: {error}") from None
    timing = _timing(content)
    if content.every:
        when = f"every {words.exact(content.every / 1000)}"
    elif content.at:
        when = f"at {datetime.fromtimestamp(content.at / 1000, UTC):%Y-%m-%d %H:%M:%S} (UTC)"
    else:
        when = f"{content.cron} ({content.tz})"
    return StoredRules(content.task, when, timing, content.misfire, content.overlap)


@lru_cache(maxsize=1000)
def slot_rules(stored: bytes) -> SlotRules:
    """Read a definition to fire its slots; raises ConfigError, also for a field of a later version."""
    try:
        content = msgspec.json.decode(stored, type=_KnownDefinition)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"a schedule's definition on the server cannot be read: {error}") from None
    return _slot_rules(_timing(content), content)


def _slot_rules(timing: Timing, definition: _Definition) -> SlotRules:
    return SlotRules(
        after=timing.after,
        latest=timing.latest,
        catch_up=definition.catch_up,
        late_ms=definition.grace,
        overlap=definition.overlap == "allow",
    )


def _timing(definition: _Definition) -> Timing:
    if definition.every:
        return Every(definition.every)
    return At(definition.at) if definition.at else Cron(definition.cron, definition.tz)


def checked_schedule(name: object) -> str:
    """Return a schedule's name if usable, else raise ConfigError."""
    schedule_name = checked(name, "a schedule's name")
    if is_own(schedule_name):
        raise ConfigError(f"a schedule's name must not begin with a colon, not {schedule_name!r}")
    if len(schedule_name) > _LONGEST_NAME:
        raise ConfigError(f"a schedule's name has at most {_LONGEST_NAME} characters, for it begins its jobs' ids")
    return schedule_name


def _changed(definition: _Definition, **changes: Any) -> _Definition:
    return msgspec.structs.replace(definition, **changes)


def _task(call: TaskCall) -> str:
    return str(codecs.decode(record_header.body(call.record))[0])
