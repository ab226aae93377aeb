"""The rules about queues, workers and apps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from lockwork.doctor.facts import RECENT, Facts, QueueFacts
from lockwork.protocol.keys import base_queue
from lockwork.validation import several

Level = Literal["serious", "warning", "info"]

_OLD = 60.0
"""Seconds that a ready job of a queue with workers may wait."""
_LAG = 1.0
"""Seconds by which an event loop may be late."""
_MANY_DEAD = 10
"""Recent dead jobs of a queue that make a warning; fewer are an information."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: what it is about, what happened, and what to change.

    `link` is a path below the dashboard's mount, None if no page shows it.
    """

    level: Level
    subject: str
    text: str
    fix: str
    link: str | None = None


def check(facts: Facts) -> list[Finding]:
    """Apply all rules."""
    apps = _apps_by_queue(facts)
    found = [finding for queue in facts.queues for finding in _check_queue(queue, facts, apps)]
    found += _check_workers(facts)
    found += _check_apps(facts)
    if facts.unchecked:
        text = f"{facts.unchecked:,} more queues and partitions were not checked."
        found.append(Finding("info", "queues", text, "Look at them by name: `lockwork queue status NAME`."))
    return found


def _apps_by_queue(facts: Facts) -> dict[str, str]:
    return {task.queue: app.name for app in facts.apps for task in app.tasks}


def _check_queue(queue: QueueFacts, facts: Facts, apps: dict[str, str]) -> Iterator[Finding]:
    status, link = queue.status, f"queues/{queue.name}"
    waiting = [(status.ready, "ready"), (status.scheduled, "scheduled"), (status.running, "running")]
    counted = ", ".join(f"{count:,} {place}" for count, place in waiting if count)
    about = f"Queue {queue.name}"
    if counted and not queue.sessions:
        app = apps.get(base_queue(queue.name), "MODULE:OBJECT")
        fix = f"Start one: `lockwork worker {app} --queues {queue.name}`."
        yield Finding("serious", about, f"{counted}, and no worker.", fix, link)
    elif status.ready and status.paused:
        fix = f"Resume it: `lockwork queue resume {queue.name}`."
        yield Finding("warning", about, f"{status.ready:,} ready, and it is paused.", fix, link)
    elif status.ready and _all_quiet(queue.name, facts):
        fix = "Resume them: `lockwork workers resume NAME`, or start another worker."
        yield Finding("serious", about, f"{status.ready:,} ready, and all of its workers are quiet.", fix, link)
    elif queue.oldest is not None and queue.oldest > _OLD:
        text = f"The oldest of {status.ready:,} ready jobs has waited for {lasting(queue.oldest)}."
        fix = "Start more workers, or raise --processes or --concurrency; check the queue's limits and slow tasks."
        yield Finding("warning", about, text, fix, link)
    if queue.died:
        level: Level = "warning" if queue.died >= _MANY_DEAD else "info"
        text = f"{several(queue.died, 'job', 'jobs')} died in the last {RECENT // 60} minutes."
        yield Finding(level, about, text, f"See why: `lockwork dead list {queue.name}`.", f"dead?queue={queue.name}")
    size = queue.rules.size
    if size is not None and status.ready + status.scheduled >= size:
        text = f"It is full: {status.ready + status.scheduled:,} jobs wait, and its size limit is {size:,}."
        fix = f"Start more workers, or raise the limit: `lockwork queue limit {queue.name} --size N`."
        yield Finding("warning", about, text, fix, link)


def _all_quiet(queue: str, facts: Facts) -> bool:
    states = [worker.state for worker in facts.workers if worker.alive and queue in worker.queues]
    return bool(states) and set(states) == {"quiet"}


def _check_workers(facts: Facts) -> Iterator[Finding]:
    known = {queue.name for queue in facts.queues}
    now = datetime.now(UTC)
    for worker in facts.workers:
        about, link = f"Worker {worker.name}", f"workers/{worker.name}"
        if worker.state == "lost":
            ago = lasting(max(0.0, (now - worker.seen).total_seconds()))
            text = f"It was lost {ago} ago with {several(worker.busy, 'job', 'jobs')} running; other workers run them."
            fix = f"Look why it ended on {worker.host}: the log, the system's out-of-memory killer, the network."
            yield Finding("warning", about, text, fix, link)
            continue
        if worker.lag is not None and worker.lag > _LAG:
            text = f"Its event loop was late by {lasting(worker.lag)}."
            fix = (
                "Its log names the job that blocks the loop: await what takes long, or define the task by a plain def."
            )
            yield Finding("warning", about, text, fix, link)
        if not facts.unchecked and known.isdisjoint(worker.queues):
            text = f"No queue that it serves ever had a job: {', '.join(worker.queues[:5])}."
            yield Finding("info", about, text, "Check its --queues, and the prefix of the producers.", link)
    versions = {worker.version for worker in facts.workers if worker.alive}
    if len(versions) > 1:
        text = f"They run different versions of Lockwork: {', '.join(sorted(versions))}."
        yield Finding("info", "workers", text, "Finish the upgrade.", "workers")


def _check_apps(facts: Facts) -> Iterator[Finding]:
    alive = {worker.app for worker in facts.workers if worker.alive}
    counts: dict[str, dict[int, str]] = defaultdict(dict)
    for app in facts.apps:
        if app.name in alive:
            for queue in {task.queue for task in app.tasks}:
                counts[queue][app.partitions.get(queue, 0)] = app.name
    for queue, found in counts.items():
        if len(found) > 1:
            said = ", ".join(f"{count or 'none'} in {app}" for count, app in sorted(found.items()))
            text = f"Apps differ in its number of partitions: {said}. Jobs of one key can run at the same time."
            yield Finding("serious", f"Queue {queue}", text, "Give all apps the same `partitions=`.", f"queues/{queue}")


def lasting(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    raise AssertionError
