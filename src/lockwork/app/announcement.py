"""What an app announces on the server: the tasks, partitions and schedules of its code."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import msgspec

from lockwork.app.state import AppState
from lockwork.protocol import announcements as protocol
from lockwork.protocol.announcements import APPS
from lockwork.protocol.effects import Protocol
from lockwork.tasks.task import Task
from lockwork.workers import AnnouncedTask, App

_MOST_TASKS = 1000


def announce(app: AppState, name: str) -> Protocol[None]:
    """Announce the app under this name."""
    record = msgspec.msgpack.encode(announced_app(app, name))
    yield from protocol.put(app.config.prefix, APPS, name, record)


def announce_producer(app: AppState) -> Protocol[None]:
    """Announce the app of this process, unless it has no name: neither its setting, nor a variable of a module."""
    if name := app.config.app_name or _reference(app):
        yield from announce(app, name)


def announced_app(app: AppState, name: str) -> App:
    """Describe what the app has in its code."""
    tasks = app.registry.of(app.registry.queues())
    return App(
        name=name,
        tasks=[_described(task) for task in tasks[:_MOST_TASKS]],
        partitions=dict(app.config.partitions.counts),
        schedules=sorted({name for plans in app.plans.values() for name in plans})[:_MOST_TASKS],
        version=version("lockwork"),
        python=platform.python_version(),
    )


def _reference(app: AppState) -> str:
    """Return `module:object` of the app: of the module that made it, or of one of its tasks; "" if there is none."""
    modules = [app.made_in, *(task.function.__module__ for task in app.registry.of(app.registry.queues()))]
    for module in dict.fromkeys(modules):
        if module in sys.modules:
            for variable, value in list(vars(sys.modules[module]).items()):
                if value is app:
                    return f"{_imported_as(module)}:{variable}"
    return ""


def _imported_as(module: str) -> str:
    """Return the name by which others import a module that may have been started as a script."""
    if module != "__main__":
        return module
    main = sys.modules[module]
    spec = getattr(main, "__spec__", None)
    return spec.name if spec else Path(getattr(main, "__file__", None) or module).stem


def _described(task: Task[..., object, object]) -> AnnouncedTask:
    options, limits = task.options_in_force, task.options_in_force.grouping.limits
    return AnnouncedTask(
        name=task.name,
        queue=options.queue,
        kind=_kind(task),
        timeout=options.timeout,
        retries=options.retries,
        hidden=options.hide_arguments,
        parameters=task.signature.described(),
        priority=options.priority,
        max_deliveries=options.max_deliveries,
        key=options.grouping.key,
        group=options.grouping.group,
        group_concurrency=limits.at_once or None,
        group_rate=f"{limits.jobs}/{limits.per_ms}ms" if limits.jobs else None,
    )


def _kind(task: Task[..., object, object]) -> Literal["async", "thread", "process", "batch"]:
    if task.batching is not None:
        return "batch"
    if task.options_in_force.in_process:
        return "process"
    return "async" if task.is_async else "thread"
