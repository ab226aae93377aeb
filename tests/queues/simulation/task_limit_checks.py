"""Rules of the limits of tasks, recounted from the running jobs after every script.

A job that starts respects the limits of its task: jobs at once, starts per time, and the pauses of the circuit breaker.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from lockwork.protocol.queue.task_limits import TaskLimits
from queues.simulation.queue_actors import Plant
from simulator.server import Command
from simulator.world import Broken, Step, World

_LATEST_MS = 60_000
"""No job is scheduled further ahead, by an exact clock."""
_NO_STATE = ("", 0, 0, 0, "", ())


class TaskState(NamedTuple):
    """The stored state of a task; see queue/parts/task_limits.lua."""

    limits: TaskLimits
    running: int
    paused_ms: int
    probe: str

    @classmethod
    def read(cls, packed: bytes | None) -> TaskState:
        """Parse the field of the server."""
        stored, running, _, paused, probe, _ = msgspec.msgpack.decode(packed) if packed else _NO_STATE
        return cls(TaskLimits.read(stored), running, paused, probe)


class TaskLimitChecker:
    """Checks every step on a queue whose tasks have limits."""

    def __init__(self, world: World, plant: Plant, tasks: Sequence[str], task_of: Mapping[str, str]) -> None:
        self._world = world
        self._plant = plant
        self._tasks = tasks
        """The tasks with limits."""
        self._task_of = task_of
        self._sessions: list[str] = []
        self.exact: bool = not (world.mix.back or world.mix.forth)
        """True if time passes evenly on the server."""
        self._starts: defaultdict[str, list[int]] = defaultdict(list)
        """Server times when jobs of each task started under its present rate, us."""
        self.places: dict[str, str] = {}
        """The place of each job: ready, due, dead, suspect, held, line, or its session."""
        self._due: dict[str, int] = {}
        """Times of the due jobs, ms of server time."""
        self.tokens: dict[str, str] = {}
        self.since: dict[str, int] = {}
        """True time since each job is in its place, us."""
        self.states = {task: TaskState.read(None) for task in tasks}
        self.changed: dict[str, int] = dict.fromkeys(tasks, 0)
        """True time of the last change of each task's state, us."""

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the places of all jobs, and the states of the tasks."""
        queue, self._sessions = self._plant.queue, list(self._plant.sessions)
        return [
            ("HKEYS", queue.jobs),
            ("HMGET", queue.groups, *(f"T {task}" for task in self._tasks)),
            ("ZRANGE", queue.group_queue, 0, -1),
            ("SMEMBERS", queue.void),
            ("ZRANGE", queue.due, 0, -1, "WITHSCORES"),
            ("ZRANGE", queue.dead, 0, -1),
            ("ZRANGE", queue.suspects, 0, -1),
            *(("LRANGE", key, 0, -1) for key in queue.ready),
            *(("HGETALL", queue.run(session)) for session in self._sessions),
        ]

    def applied(self, step: Step) -> None:
        """Check a step."""
        before, states, tokens = self.places, self.states, self.tokens
        self._read(step.seen)
        now = self._world.now
        for id, place in self.places.items():
            if before.get(id) != place or tokens.get(id) != self.tokens.get(id):
                self.since[id] = now
        for task, state in self.states.items():
            if state != states[task]:
                self.changed[task] = now
            if state.limits != states[task].limits:
                self._starts[task].clear()
        started = [id for id, token in self.tokens.items() if tokens.get(id) != token]
        self._recount()
        self._check_started(step, states, started)

    def _read(self, seen: Sequence[Any]) -> None:
        known, states, lines, void, due, dead, suspects, *rest = seen
        ready, runs = rest[: len(rest) - len(self._sessions)], rest[len(rest) - len(self._sessions) :]
        places: dict[str, str] = {}
        self.tokens = {}
        self._due = {id.decode(): int(at) for id, at in due}
        waiting = [*(("ready", id) for ids in ready for id in ids if id not in void), *(("due", id) for id, _ in due)]
        waiting += [*(("dead", id) for id in dead), *(("suspect", id) for id in suspects), *map(_in_line, lines)]
        for place, raw in waiting:
            self._put(places, raw.decode(), place)
        for session, run in zip(self._sessions, runs, strict=True):
            for raw, token in run.items():
                self._put(places, raw.decode(), session)
                self.tokens[raw.decode()] = token.decode()
                self._plant.leased.add((raw.decode(), session, token.decode()))
        if places.keys() != {raw.decode() for raw in known}:
            raise Broken(f"Q1: in one place only: {places.keys() ^ {raw.decode() for raw in known}}")
        self.places = places
        self.states = {task: TaskState.read(packed) for task, packed in zip(self._tasks, states, strict=True)}

    def _put(self, places: dict[str, str], id: str, place: str) -> None:
        if id in places:
            raise Broken(f"Q1: {id} is {places[id]} and {place}")
        places[id] = place

    def _recount(self) -> None:
        """Check that the stored number of running jobs is the number of running jobs that count."""
        counted = Counter(token.split(" ")[0].partition("+")[2] for token in self.tokens.values())
        for task, state in self.states.items():
            if state.running != counted[task]:
                raise Broken(f"T1: {counted[task]} counted jobs of {task} run, and its state says {state.running}")

    def _check_started(self, step: Step, before: dict[str, TaskState], started: Sequence[str]) -> None:
        running = Counter(self._task_of[id] for id in self.tokens)
        for task, count in Counter(self._task_of[id] for id in started).items():
            if task not in self.states:
                continue
            limits, paused = self.states[task].limits, before[task].paused_ms
            if not all(f"+{task} " in self.tokens[id] for id in started if self._task_of[id] == task) and any(limits):
                raise Broken(f"T1: {step.script} started {started}, whose task {task} has {limits}, uncounted")
            if limits.at_once and running[task] > limits.at_once:
                raise Broken(f"T1: {step.script} started {started}: {running[task]} of {task} run, {limits}")
            if paused and (count > 1 or before[task].probe in self.tokens):
                raise Broken(f"T3: {step.script} started {started} of {task}, one of which may probe: {before[task]}")
            if paused and self.exact and step.now // 1000 < paused:
                raise Broken(f"T3: {step.script} started {started} of {task}, which is paused until {paused}")
            if limits.jobs and self.exact:
                self._check_rate(step, task, limits, count)

    def _check_rate(self, step: Step, task: str, limits: TaskLimits, count: int) -> None:
        """Check the rate by the definition of GCRA, over each window that ends now."""
        starts = self._starts[task]
        starts += [step.now] * count
        for at, first in enumerate(starts):
            if len(starts) - at > limits.jobs + (step.now - first) * limits.jobs / (limits.per_ms * 1000) + 1e-6:
                raise Broken(f"T2: {len(starts) - at} jobs of {task} started within {step.now - first} us: {limits}")

    def startable_since(self, id: str) -> int | None:
        """Return since when a waiting job may start, by its task and the time; None if it may not."""
        place, task = self.places[id], self._task_of[id]
        if place not in ("ready", "held"):
            return None
        if task not in self.states:
            return self.since[id]
        limits, running, paused_ms, probe = self.states[task]
        if (limits.at_once and running >= limits.at_once) or limits.jobs or (paused_ms and probe in self.places):
            return None  # a rate is checked by the end of the run
        since = max(self.since[id], self.changed[task])
        wait_ms = paused_ms - self._world.server_now // 1000
        return None if paused_ms and wait_ms > 0 else max(since, self._world.now + wait_ms * 1000 if paused_ms else 0)

    def settled(self) -> bool:
        """Return True if all jobs have ended, except retries that were scheduled while the clock was far ahead."""
        latest = self._world.server_now // 1000 + _LATEST_MS
        return all(place == "dead" or self._due.get(id, 0) > latest for id, place in self.places.items())

    def at_end(self) -> None:
        """Check that every job has ended, and that no limit is in use."""
        if not self.settled():
            raise Broken(f"Q1: not at an end: {self.places}")
        used = {task: state for task, state in self.states.items() if state.running}
        if used:
            raise Broken(f"T1: all jobs have ended, and {used} run")


def _in_line(entry: bytes) -> tuple[str, bytes]:
    line, rest = entry.split(b"\n")
    return "held" if line.startswith(b"t ") else "line", rest.split(b" ")[1]
