"""The rules about calls that no worker can run: unknown tasks, changed signatures, and queues that apps share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

from lockwork import words
from lockwork.doctor.finding import Finding
from lockwork.inspection.overview import SystemOverview
from lockwork.protocol.keys import base_queue
from lockwork.protocol.queue.parked import ParkedTask
from lockwork.workers import RunningVersions

_BRIEF = 30.0
"""Seconds that a job of a known task may be parked: a worker takes it when it has a free slot."""


def check_calls(overview: SystemOverview) -> Iterator[Finding]:
    """Name the tasks that no live worker knows, and the queues that apps share by mistake."""
    running = overview.running
    for queue, diagnosis in overview.diagnosed:
        for parked in diagnosis.parked:
            yield from _check_parked(queue.name, parked, running)
    for name, apps in shared_queues(running).items():
        text = f"Workers of different apps serve it, and share no task: {' and '.join(apps)}."
        fix = "Give each app a queue or a prefix of its own: a job that reaches the wrong app waits for another worker."
        yield Finding("warning", f"Queue {name}", text, fix, f"queues/{name}")


def shared_queues(running: RunningVersions) -> dict[str, list[str]]:
    """Return the queues that live workers of different apps serve although the apps share no task."""
    apps_by_queue: dict[str, list[str]] = {}
    for queue in {queue for worker in running.workers for queue in worker.queues}:
        tasks: defaultdict[str, set[str]] = defaultdict(set)
        for app in running.of_workers(queue):
            tasks[app.name] |= {name for task in app.tasks for name in (task.name, *task.aliases)}
        apps = sorted(name for name, own in tasks.items() if own)
        if any(tasks[name].isdisjoint(tasks[other]) for at, name in enumerate(apps) for other in apps[:at]):
            apps_by_queue[base_queue(queue)] = apps
    return dict(sorted(apps_by_queue.items()))


def _check_parked(queue: str, parked: ParkedTask, running: RunningVersions) -> Iterator[Finding]:
    age = max(0.0, datetime.now(UTC).timestamp() - parked.since / 1000)
    about, link = f"Queue {queue}", f"queues/{queue}"
    jobs = words.several(parked.jobs, "job")
    do, wait = ("does", "waits") if parked.jobs == 1 else ("do", "wait")
    if parked.versions and not running.versions(parked.task, queue) - set(parked.versions):
        text = f"{jobs} of task {parked.task!r} {do} not fit the task in any worker, for {words.age(age)}."
        fix = "Deploy the version of the app that made the calls, or give the workers the key that encrypted them."
        yield Finding("warning", about, text, fix, link)
    elif not running.known(parked.task, queue):
        text = f"{jobs} of task {parked.task!r} {wait} for a worker that knows it, for {words.age(age)}."
        fix = "Start a worker of the app that has this task, or add its former name to `aliases=` of the task."
        yield Finding("warning", about, text, fix, link)
    elif age > _BRIEF:
        text = f"{jobs} of task {parked.task!r} {wait} for a free worker that knows it, for {words.age(age)}."
        yield Finding("info", about, text, "Start more workers of the version that has the task.", link)
