"""Compares recorded jobs with what a test expects, and says what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from lockwork import codecs
from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError
from lockwork.jobs import options as job_options
from lockwork.protocol.keys import base_queue
from lockwork.tasks.remote import RemoteTask
from lockwork.tasks.task import Task
from lockwork.testing.recorded import RecordedJob
from lockwork.validation import whole
from lockwork.words import several

TOLERANCE = 1.0
"""Seconds by which a delay may differ from a moment, since the two are compared by this process's clock."""
_SHOWN = 10
"""Jobs that an error shows."""
_WIDTH = 200


class Nothing:
    """Stands for a missing value in an error."""

    def __repr__(self) -> str:
        return "nothing"


class Expected(Struct, frozen=True):
    """What a test expects of a job; None: anything."""

    task: Task[..., Any, Any] | str
    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    delay: float | None = None
    at: datetime | None = None
    queue: str | None = None
    key: str | None = None

    @classmethod
    def read(
        cls,
        task: Task[..., Any, Any] | RemoteTask[Any] | str,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        delay: Duration | None,
        at: datetime | None,
        queue: str | None,
        key: str | None,
    ) -> Expected:
        """Check the values; raises ConfigError."""
        if isinstance(task, RemoteTask):
            queue, task = task.queue if queue is None else queue, task.name
        if not isinstance(task, Task | str):
            raise ConfigError(f"pass a task, or the name of a task, not {task!r:.60}")
        if args is not None and (isinstance(args, str | bytes) or not isinstance(args, Sequence)):
            raise ConfigError(f"args must be a tuple of arguments, such as (42,), not {args!r:.60}")
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise ConfigError(f"kwargs must be a dict of arguments by name, not {kwargs!r:.60}")
        if delay is not None and at is not None:
            raise ConfigError("pass delay or at, not both")
        if isinstance(task, Task) and kwargs is not None:
            unknown = [name for name in kwargs if name not in task.signature.names]
            if unknown and not task.signature.takes_any_name:
                names = ", ".join(task.signature.names)
                raise ConfigError(f"task {task.name!r} has no argument {unknown[0]!r}: it has {names or 'none'}")
        if at is not None:
            job_options.at(at, "at")
        wait = None if delay is None else seconds(delay, "delay", zero=True)
        return cls(task, args, kwargs, wait, at, queue, key)

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task if isinstance(self.task, str) else self.task.name

    def of_task(self, job: RecordedJob) -> bool:
        """Return True if the job is of the task."""
        if isinstance(self.task, str):
            return job.task == self.task
        return (
            job.task in (self.task.name, *self.task.options_in_force.aliases)
            and job.prefix == self.task.queue_context().keys.prefix
            and (
                job.runtime is self.task.queue_context().runtime
                or base_queue(job.queue) in self.task.options_in_force.queues
            )
        )

    def differences(self, job: RecordedJob) -> list[str]:
        """Say how a job of the task differs; nothing if it is as expected."""
        texts = [*self._in_arguments(job)]
        if self.delay is not None and abs(job.delay - self.delay) > (TOLERANCE if job.absolute else 0.001):
            texts.append(f"delay: expected {self.delay:g} s, found {job.delay:g} s")
        if self.at is not None:
            off = abs((job.at - self.at).total_seconds())
            if off > (0.001 if job.absolute else TOLERANCE):
                texts.append(f"at: expected {self.at.astimezone(UTC).isoformat()}, found {job.at.isoformat()}")
        if self.queue is not None and self.queue not in (job.queue, base_queue(job.queue)):
            texts.append(f"queue: expected {self.queue!r}, found {job.queue!r}")
        if self.key is not None and self.key != job.key:
            texts.append(f"key: expected {self.key!r}, found {job.key!r}")
        return texts

    def _in_arguments(self, job: RecordedJob) -> Iterator[str]:
        if self.args is None and self.kwargs is None:
            return
        call = _Arguments.of(self.task, job)
        for at, value in enumerate(self.args or ()):
            if at < len(call.positional):
                yield from _differences(value, *call.positional[at], f"args[{at}]")
            else:
                yield f"args[{at}]: expected {_short(value)}, found nothing"
        for name, value in (self.kwargs or {}).items():
            pair = call.named.get(name, (Nothing(), Nothing()))
            yield from _differences(value, *pair, f"kwargs[{name!r}]")

    def __str__(self) -> str:
        """What is expected, without the task."""
        values = {
            "args": self.args,
            "kwargs": self.kwargs,
            "delay": None if self.delay is None else f"{self.delay:g} s",
            "at": None if self.at is None else self.at.isoformat(),
            "queue": self.queue,
            "key": self.key,
        }
        return ", ".join(f"{name}={_short(value)}" for name, value in values.items() if value is not None)


class _Arguments(Struct, frozen=True):
    """The arguments of a job, each as JSON and as the function gets it: by position, and all of them by name."""

    positional: list[tuple[Any, Any]]
    named: dict[str, tuple[Any, Any]]

    @classmethod
    def of(cls, task: Task[..., Any, Any] | str, job: RecordedJob) -> _Arguments:
        args, kwargs = deepcopy(job.args), deepcopy(job.kwargs)
        if isinstance(task, str):
            return cls([(one, one) for one in args], {name: (one, one) for name, one in kwargs.items()})
        try:
            task.signature.convert(args, kwargs)
        except (ValueError, TypeError):
            args, kwargs = job.args, job.kwargs  # results of other jobs, which are not known yet
        plain = task.signature.bound(job.args, job.kwargs)
        typed = task.signature.bound(args, kwargs)
        named = {name: (plain.arguments[name], typed.arguments[name]) for name in plain.arguments}
        extra = next((n for n, p in plain.signature.parameters.items() if p.kind is p.VAR_KEYWORD), None)
        if extra is not None:
            more, converted = named.pop(extra)
            named |= {name: (more[name], converted[name]) for name in more}
        return cls(list(zip(plain.args, typed.args, strict=True)), named)


def _differences(expected: Any, plain: Any, typed: Any, path: str) -> Iterator[str]:
    """Compare a value: a dict may have more keys than expected; anything else must be equal."""
    if _equal(expected, typed) or _equal(expected, plain):
        return
    if isinstance(expected, Mapping) and isinstance(plain, dict):
        for name, value in expected.items():
            inner = plain.get(str(name), Nothing())
            yield from _differences(value, inner, inner, f"{path}[{name!r}]")
        return
    if isinstance(expected, list | tuple) and isinstance(plain, list) and len(expected) == len(plain):
        for at, (value, inner) in enumerate(zip(expected, plain, strict=True)):
            yield from _differences(value, inner, inner, f"{path}[{at}]")
        return
    try:
        sent = codecs.decode(codecs.encode(expected, path, 1 << 30, reveal=True))
    except (ConfigError, msgspec.MsgspecError):
        sent = expected  # a matcher, such as mock.ANY
    if not _equal(sent, plain):
        yield f"{path}: expected {_short(expected)}, found {_short(plain)}"


def _equal(expected: Any, found: Any) -> bool:
    try:
        return bool(expected == found)
    except Exception:  # noqa: BLE001 - classes of the app may fail in any way
        return False


def _short(value: Any) -> str:
    text = value if isinstance(value, str) and value.endswith(" s") else repr(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def count_of(given: int | None) -> int | None:
    """Check the expected number of jobs; raises ConfigError."""
    return None if given is None else whole(given, "count", 0, 1 << 40)


def complaint(expected: Expected, count: int | None, jobs: Sequence[RecordedJob], matching: int) -> str:
    """Say what was expected, and how the recorded jobs differ."""
    own = [job for job in jobs if expected.of_task(job)]
    which = f" with {expected}" if str(expected) else ""
    if count is None:
        first = f"no job of {expected.name!r} was enqueued{which}"
    elif count == 0:
        first = f"{several(matching, 'job', 'jobs')} of {expected.name!r} enqueued{which}, but none was expected"
    else:
        amount = several(count, "job", "jobs")
        first = f"expected {amount} of {expected.name!r}{which}, and found {matching}"
    lines = [first]
    if not jobs:
        lines.append("nothing was enqueued")
    elif not own:
        counted = Counter(job.task for job in jobs)
        others = ", ".join(f"{name!r} ({number})" for name, number in counted.most_common(_SHOWN))
        lines.append(f"no job of this task was enqueued; the others: {others}")
    else:
        lines.append(f"the {several(len(own), 'job', 'jobs')} of {expected.name!r}:")
        for number, job in enumerate(own[:_SHOWN], 1):
            lines.append(f"  {number}. {described(job)}")
            lines += [f"       {line}" for line in expected.differences(job)]
        if len(own) > _SHOWN:
            lines.append(f"  and {len(own) - _SHOWN} more")
    return "\n".join(lines)


def described(job: RecordedJob) -> str:
    """Describe a job in one line."""
    named = [_short(one) for one in job.args] + [f"{name}={_short(value)}" for name, value in job.kwargs.items()]
    facts = [f"queue {job.queue!r}"]
    if job.absolute:
        facts.append(f"at {job.at.isoformat()}")
    elif job.delay:
        facts.append(f"delay {job.delay:g} s")
    facts += [f"{what} {value!r}" for what, value in (("key", job.key), ("group", job.group)) if value]
    return f"{job.task}({', '.join(named)}), {', '.join(facts)}"
