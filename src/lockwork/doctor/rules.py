"""The rules about queues, workers and apps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import reduce

from msgspec import Struct

from lockwork import words
from lockwork.doctor.calls import check_calls
from lockwork.doctor.finding import Finding, Level
from lockwork.inspection.overview import NEWEST, RECENT, SystemOverview
from lockwork.inspection.queue_state import Diagnosis, PartitionState
from lockwork.protocol.keys import base_queue
from lockwork.protocol.queue.ages import ReadyAge
from lockwork.protocol.queue.status import QueueStatus
from lockwork.stuck import StuckJob, stuck_jobs
from lockwork.workers import newest

_OLD = 60.0
"""Seconds that a ready job of a queue with workers may wait."""
_LAG = 1.0
"""Seconds of event loop delay without a finding."""
_MANY_DEAD = 10
"""Number of recent dead jobs in a queue that cause a warning; fewer cause an info."""
_CAUSES = 2
"""Number of errors of dead jobs that a finding names."""


class QueueFacts(Struct, frozen=True):
    """One queue or partition, in the form for the rules."""

    state: PartitionState
    diagnosis: Diagnosis

    @property
    def name(self) -> str:
        """Name of the queue or partition."""
        return self.state.name

    @property
    def status(self) -> QueueStatus:
        """Number of jobs by place, and counters."""
        return self.state.status


def check(overview: SystemOverview) -> list[Finding]:
    """Apply all rules."""
    apps = _apps_by_queue(overview)
    queues: defaultdict[str, list[QueueFacts]] = defaultdict(list)
    for queue, diagnosis in overview.diagnosed:
        queues[base_queue(queue.name)].append(QueueFacts(queue, diagnosis))
    findings = [finding for name, parts in queues.items() for finding in _check_queue(name, parts, overview, apps)]
    findings += _check_waits(overview)
    findings += _check_workers(overview)
    findings += _check_apps(overview)
    findings += check_calls(overview)
    if overview.embedded and not any(worker.alive for worker in overview.workers):
        text = f"This is {overview.embedded}, and it has no worker."
        fix = "If your apps and workers use another server, set LOCKWORK_URL."
        findings.append(Finding("info", "server", text, fix))
    if unchecked := _unchecked(overview):
        text = f"{unchecked:,} further queues and partitions were not checked."
        findings.append(Finding("info", "queues", text, "Check them by name: `lockwork queue NAME`."))
    return findings


def _unchecked(overview: SystemOverview) -> int:
    """Count the queues and partitions that the rules do not check."""
    return len(overview.names) - len(overview.diagnosed)


def _apps_by_queue(overview: SystemOverview) -> dict[str, str]:
    """Return the `module:object` of an app for each queue; a custom name does not say how to start a worker."""
    return {task.queue: app.name for app in newest(overview.apps) for task in app.tasks if ":" in app.name}


def _check_queue(
    name: str, parts: list[QueueFacts], overview: SystemOverview, apps: dict[str, str]
) -> Iterator[Finding]:
    """Check a queue; a problem of several partitions is one finding."""
    parts_by_trouble: defaultdict[str, list[QueueFacts]] = defaultdict(list)
    for part in parts:
        for trouble in _troubles(part, overview):
            parts_by_trouble[trouble].append(part)
    for trouble, some in parts_by_trouble.items():
        if trouble == "died":
            yield _said(trouble, some, f"Queue {name}", name, apps, ())
            continue
        named = name if len(some) == len(parts) else some[0].name
        about = f"Queue {named}" if len(some) in (1, len(parts)) else f"Queue {name}, {len(some)} of its partitions"
        served = {part.name for part in some}
        quiet = [each.name for each in overview.workers if each.state == "quiet" and not served.isdisjoint(each.queues)]
        yield _said(trouble, some, about, named if len(some) == 1 else name, apps, quiet)


def _troubles(queue: QueueFacts, overview: SystemOverview) -> Iterator[str]:
    status, size = queue.status, queue.state.rules.size
    if status.ready + status.scheduled + status.running and not queue.state.workers:
        yield "no worker"
    elif status.ready and status.paused:
        yield "paused"
    elif status.ready and _all_quiet(queue.name, overview):
        yield "quiet"
    elif queue.state.oldest.seconds > _OLD:
        yield "old"
    if queue.diagnosis.died:
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
            age = reduce(ReadyAge.older, (queue.state.oldest for queue in some))
            oldest = words.age(age.seconds) if age.known else f"at least {words.age(age.seconds)}"
            which = "Its only ready job" if ready == 1 else f"The oldest of {ready:,} ready jobs"
            text = f"{which} has waited for {oldest}."
            fix = "Start more workers, or raise --processes or --concurrency; check the queue's limits and slow tasks."
            return Finding("warning", about, text, fix, link)
        case "died":
            died = sum(queue.diagnosis.died for queue in some)
            level: Level = "warning" if died >= _MANY_DEAD else "info"
            causes = [
                cause for cause, _ in sum((queue.diagnosis.causes for queue in some), Counter[str]()).most_common()
            ]
            of = ", the newest of " if any(queue.diagnosis.died > NEWEST for queue in some) else ": "
            why = f"{of}{', '.join(causes[:_CAUSES])}{' and others' if len(causes) > _CAUSES else ''}" if causes else ""
            text = f"{words.several(died, 'job')} died in the last {RECENT // 60} minutes{why}."
            return Finding(
                level, about, text, f"See the errors: `lockwork dead --queue {name}`.", f"dead?queue={base_queue(name)}"
            )
        case _:
            size = sum(queue.state.rules.size or 0 for queue in some)
            text = f"It is full: {ready + scheduled:,} jobs wait, and its size limit is {size:,}."
            fix = f"Start more workers, or raise the limit: `lockwork queue limit {some[0].name} --size N`."
            return Finding("warning", about, text, fix, link)


def _all_quiet(queue: str, overview: SystemOverview) -> bool:
    states = [worker.state for worker in overview.workers if worker.alive and queue in worker.queues]
    return bool(states) and set(states) == {"quiet"}


def _check_waits(overview: SystemOverview) -> Iterator[Finding]:
    by_queue: defaultdict[str, list[StuckJob]] = defaultdict(list)
    for each in stuck_jobs(overview.workers):
        by_queue[each.awaited.queue].append(each)
    for queue, some in by_queue.items():
        first = some[0]
        wait = f"Job {first.job.id} of task {first.job.task} waits for job {first.awaited.id}."
        if first.lack == "slot":
            text = f"Its jobs cannot start: all slots of its workers are taken by jobs that wait for results. {wait}"
            fix = "Raise --concurrency, give the awaited jobs a queue and workers of their own, or use a flow."
        elif first.lack == "runner":
            text = f"Its jobs cannot start: all runners are taken by jobs that wait for results. {wait}"
            fix = "Raise --runners, give the awaited jobs a queue and workers of their own, or use a flow."
        else:
            text = f"Jobs wait for results of each other. {wait}"
            fix = f"Cancel one of them: `lockwork job cancel {first.job.id}`."
        yield Finding("serious", f"Queue {queue}", text, fix, f"queues/{queue}")


def _check_workers(overview: SystemOverview) -> Iterator[Finding]:
    # a worker also registers its queues
    used_queues = {queue.name for queue, _ in overview.diagnosed if queue.status.enqueued}
    unchecked, now = _unchecked(overview), datetime.now(UTC)
    for worker in overview.workers:
        about, link = f"Worker {worker.name}", f"workers/{worker.name}"
        if worker.state == "lost":
            ago = words.age((now - worker.seen).total_seconds())
            running = f" with {words.several(worker.busy, 'job')} running" if worker.busy else ""
            text = f"It was lost {ago} ago{running}; other workers take over."
            fix = f"Find out why: see its log, the out-of-memory killer and the network of {worker.host}."
            yield Finding("warning", about, text, fix, link)
            continue
        if worker.lag is not None and worker.lag > _LAG:
            text = f"Its event loop was late by {words.duration(worker.lag)}."
            fix = "Its log names the job that blocks the loop: await slow operations, or use a plain `def`."
            yield Finding("warning", about, text, fix, link)
        if not unchecked and used_queues.isdisjoint(worker.queues):
            text = f"No queue that it serves ever had a job: {', '.join(worker.queues[:5])}."
            yield Finding("info", about, text, "Check its --queues, and the URL and prefix of the producers.", link)
    versions = {worker.version for worker in overview.workers if worker.alive}
    if len(versions) > 1:
        text = f"They run different versions of Lockwork: {', '.join(sorted(versions))}."
        yield Finding("info", "workers", text, "Finish the upgrade.", "workers")


def _check_apps(overview: SystemOverview) -> Iterator[Finding]:
    alive = {worker.app for worker in overview.workers if worker.alive}
    counts: dict[str, dict[int, str]] = defaultdict(dict)
    for app in newest(overview.apps):
        if app.name in alive:
            for queue in {task.queue for task in app.tasks}:
                counts[queue][app.partitions.get(queue, 0)] = app.name
    for queue, count_by_app in counts.items():
        if len(count_by_app) > 1:
            differences = ", ".join(f"{count or 'none'} in {app}" for count, app in sorted(count_by_app.items()))
            text = f"Apps differ in its number of partitions: {differences}. Jobs of one key can run at the same time."
            yield Finding("serious", f"Queue {queue}", text, "Give all apps the same `partitions=`.", f"queues/{queue}")
