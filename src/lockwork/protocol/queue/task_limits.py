"""Limits of tasks over all workers, and their circuit breakers (queue/parts/task_limits.lua)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.keys import QueueKeys


class TaskLimits(NamedTuple):
    """Limits of a task; 0 is no limit.

    `at_once` jobs run at a time, and `jobs` start per `per_ms`. After `failures` within `window_ms`, no job starts for
    `pause_ms`, and then one.
    """

    at_once: int = 0
    jobs: int = 0
    per_ms: int = 0
    failures: int = 0
    window_ms: int = 0
    pause_ms: int = 0

    @property
    def stored(self) -> str:
        """The limits in the server's form; empty for none."""
        return "/".join(map(str, self)) if any(self) else ""

    @classmethod
    def read(cls, stored: str) -> TaskLimits:
        """Parse the server's form."""
        return cls(*map(int, stored.split("/"))) if stored else cls()


class LimitedTask(NamedTuple):
    """A task that a worker declares: its limits, and all of its names, its own first."""

    limits: TaskLimits
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class TaskLimitState:
    """The limits of one task on one queue or partition, and their use."""

    task: str
    queue: str
    limits: TaskLimits
    running: int
    waiting: int
    """Number of jobs that have reached the front of the queue, and wait for a limit of their task."""
    state: Literal["open", "paused", "probing"]
    """paused: no job starts. probing: the pause is over, and one job starts, or runs, before all others."""
    pause_ends_in: float | None
    """Seconds; None unless paused."""
    failures: int
    """Recent failures that count towards the next pause."""


def declare(queue: QueueKeys, tasks: Mapping[str, LimitedTask]) -> Protocol[int]:
    """Replace the limits of these tasks; return how many have changed."""
    args: list[Argument] = []
    for task, limited in tasks.items():
        args += (task, limited.limits.stored, " ".join(limited.names))
    changed: int = yield script_call("queue/declare_limits", queue, args)
    return changed


def resume(queue: QueueKeys, task: str) -> Protocol[bool]:
    """End the pause of a task; return True if it was paused."""
    return bool((yield script_call("queue/resume_task", queue, [task])))


def states(queue: QueueKeys) -> Protocol[list[TaskLimitState]]:
    """Read the limits of all tasks that have some."""
    now, *fields = yield script_call("queue/task_limits", queue)
    found = [
        _state(queue.name, now, fields[at].decode(), fields[at + 1], fields[at + 2]) for at in range(0, len(fields), 3)
    ]
    return sorted(found, key=lambda each: each.task)


def _state(queue: str, now_ms: int, task: str, packed: bytes, waiting: int) -> TaskLimitState:
    stored, running, _, paused, probe, failures = msgspec.msgpack.decode(packed) if packed else ("", 0, 0, 0, "", ())
    limits = TaskLimits.read(_text(stored))
    paused_ms = min(paused, now_ms + limits.pause_ms)
    state: Literal["open", "paused", "probing"] = "open"
    if paused:
        state = "paused" if paused_ms > now_ms and not probe else "probing"
    recent = sum(now_ms - limits.window_ms < at <= now_ms for at in failures)
    ends_in = (paused_ms - now_ms) / 1000 if state == "paused" else None
    return TaskLimitState(task, queue, limits, running, waiting, state, ends_in, recent)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def to_declare(
    own: Mapping[str, LimitedTask], known: Container[str], on_server: str, *, joins: bool
) -> dict[str, LimitedTask]:
    """Return what a worker declares: its limited tasks when it joins, or when the server has lost some.

    own: the limited tasks. known: all of its tasks; those without limits lose the limits of an earlier version.
    on_server: the tasks with limits on the server, as a heartbeat reads them.
    """
    listed = {words[1] for line in on_server.split("\n") if len(words := line.split(" ")) == 2}
    if not joins:
        return {} if own.keys() <= listed else dict(own)
    removed = {task: LimitedTask(TaskLimits(), ()) for task in listed if task in known and task not in own}
    return {**removed, **own}
