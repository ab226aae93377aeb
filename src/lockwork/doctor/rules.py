"""The rules about queues, workers and apps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from lockwork.doctor.facts import RECENT, Facts, QueueFacts
from lockwork.protocol.keys import base_queue
from lockwork.protocol.locks.overview import Overview, read
from lockwork.validation import several

Level = Literal["serious", "warning", "info"]

_OLD = 60.0
"""Seconds that a ready job of a queue with workers may wait."""
_LAG = 1.0
"""Seconds by which an event loop may be late."""
_MANY_DEAD = 10
"""Recent dead jobs of a queue that make a warning; fewer are an information."""


_CAUSES = 2
"""Errors of dead jobs that a finding names."""


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
    queues: defaultdict[str, list[QueueFacts]] = defaultdict(list)
    for queue in facts.queues:
        queues[base_queue(queue.name)].append(queue)
    found = [finding for name, parts in queues.items() for finding in _check_queue(name, parts, facts, apps)]
    found += _check_workers(facts)
    found += _check_apps(facts)
    if facts.unchecked:
        text = f"{facts.unchecked:,} further queues and partitions were not checked."
        found.append(Finding("info", "queues", text, "Check them by name: `lockwork queue status NAME`."))
    return found


def _apps_by_queue(facts: Facts) -> dict[str, str]:
    """The `module:object` of an app for each queue; a name that was chosen does not say how to start a worker."""
    return {task.queue: app.name for app in facts.apps for task in app.tasks if ":" in app.name}


def _check_queue(name: str, parts: list[QueueFacts], facts: Facts, apps: dict[str, str]) -> Iterator[Finding]:
    """Check a queue; what is wrong with several of its partitions is one finding."""
    found: defaultdict[str, list[QueueFacts]] = defaultdict(list)
    for part in parts:
        for trouble in _troubles(part, facts):
            found[trouble].append(part)
    for trouble, some in found.items():
        if trouble == "died":
            yield _said(trouble, some, f"Queue {name}", name, apps, ())
            continue
        named = name if len(some) == len(parts) else some[0].name
        about = f"Queue {named}" if len(some) in (1, len(parts)) else f"Queue {name}, {len(some)} of its partitions"
        served = {part.name for part in some}
        quiet = [each.name for each in facts.workers if each.state == "quiet" and not served.isdisjoint(each.queues)]
        yield _said(trouble, some, about, named if len(some) == 1 else name, apps, quiet)


def _troubles(queue: QueueFacts, facts: Facts) -> Iterator[str]:
    status, size = queue.status, queue.rules.size
    if status.ready + status.scheduled + status.running and not queue.sessions:
        yield "no worker"
    elif status.ready and status.paused:
        yield "paused"
    elif status.ready and _all_quiet(queue.name, facts):
        yield "quiet"
    elif queue.oldest is not None and queue.oldest > _OLD:
        yield "old"
    if queue.died:
        yield "died"
    if size is not None and status.ready + status.scheduled >= size:
        yield "full"


def _said(
    trouble: str, some: list[QueueFacts], about: str, name: str, apps: dict[str, str], quiet: Sequence[str]
) -> Finding:
    link = f"queues/{name}"
    ready, scheduled, running = (
        sum(getattr(queue.status, place) for queue in some) for place in ("ready", "scheduled", "running")
    )
    match trouble:
        case "no worker":
            waiting = [(ready, "ready"), (scheduled, "scheduled"), (running, "running")]
            counted = ", ".join(f"{count:,} {place}" for count, place in waiting if count)
            fix = f"Start one: `lockwork worker {apps.get(base_queue(name), 'MODULE:OBJECT')} --queues {name}`."
            return Finding("serious", about, f"{counted}, and no worker.", fix, link)
        case "paused":
            fix = f"Resume it: `lockwork queue resume {name}`."
            return Finding("warning", about, f"{ready:,} ready, and it is paused.", fix, link)
        case "quiet":
            fix = f"Resume one: `lockwork workers resume {quiet[0]}`, or start another worker."
            return Finding("serious", about, f"{ready:,} ready, and all of its workers are quiet.", fix, link)
        case "old":
            oldest = lasting(max(queue.oldest or 0.0 for queue in some))
            which = "Its only ready job" if ready == 1 else f"The oldest of {ready:,} ready jobs"
            text = f"{which} has waited for {oldest}."
            fix = "Start more workers, or raise --processes or --concurrency; check the queue's limits and slow tasks."
            return Finding("warning", about, text, fix, link)
        case "died":
            died = sum(queue.died for queue in some)
            level: Level = "warning" if died >= _MANY_DEAD else "info"
            causes = [cause for cause, _ in sum((queue.causes for queue in some), Counter[str]()).most_common()]
            why = f": {', '.join(causes[:_CAUSES])}{' and others' if len(causes) > _CAUSES else ''}" if causes else ""
            text = f"{several(died, 'job', 'jobs')} died in the last {RECENT // 60} minutes{why}."
            return Finding(
                level, about, text, f"See the errors: `lockwork dead --queue {name}`.", f"dead?queue={base_queue(name)}"
            )
        case _:
            size = sum(queue.rules.size or 0 for queue in some)
            text = f"It is full: {ready + scheduled:,} jobs wait, and its size limit is {size:,}."
            fix = f"Start more workers, or raise the limit: `lockwork queue limit {some[0].name} --size N`."
            return Finding("warning", about, text, fix, link)


def _all_quiet(queue: str, facts: Facts) -> bool:
    states = [worker.state for worker in facts.workers if worker.alive and queue in worker.queues]
    return bool(states) and set(states) == {"quiet"}


def check_locks(locks: Overview) -> list[Finding]:
    """Name each deadlock."""
    found: list[Finding] = []
    for deadlock in locks.deadlocks:
        lock = min(edge.resource for edge in deadlock.cycle).partition(" ")[2]
        fix = f"Release one of the locks: `lockwork locks release {lock}`."
        found.append(Finding("serious", "Deadlock", f"{deadlock.named(_owner)}.", fix, "locks"))
    return found


def _owner(owner: str) -> str:
    holder = read(owner)
    return f"{holder.host}/{holder.pid} {holder.label}".strip() if holder.host else owner


def _check_workers(facts: Facts) -> Iterator[Finding]:
    # a worker makes its queues known, too
    known = {queue.name for queue in facts.queues if queue.status.enqueued}
    now = datetime.now(UTC)
    for worker in facts.workers:
        about, link = f"Worker {worker.name}", f"workers/{worker.name}"
        if worker.state == "lost":
            ago = lasting(max(0.0, (now - worker.seen).total_seconds()))
            running = f" with {several(worker.busy, 'job', 'jobs')} running" if worker.busy else ""
            text = f"It was lost {ago} ago{running}; other workers take over."
            fix = f"Find out why: see its log, the out-of-memory killer and the network of {worker.host}."
            yield Finding("warning", about, text, fix, link)
            continue
        if worker.lag is not None and worker.lag > _LAG:
            text = f"Its event loop was late by {lasting(worker.lag)}."
            fix = "Its log names the job that blocks the loop: await slow operations, or use a plain `def`."
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
