"""Announces an app on the server: the tasks, partitions and schedules of its code."""

from __future__ import annotations

import math
import os
import platform
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal
from typing import Protocol as Interface

import msgspec

from lockwork.config import Config
from lockwork.naming import has_braces
from lockwork.protocol.announcements.announcements import APPS, put
from lockwork.protocol.effects import Protocol
from lockwork.schedules.plans import SchedulePlans
from lockwork.tasks.fingerprint import digest
from lockwork.tasks.registry import Registry
from lockwork.tasks.task import Task
from lockwork.version import VERSION
from lockwork.workers import AnnouncedTask, App

_PART = 500
"""Tasks, and schedules, in one record: the records of a large app are bounded, too."""
_REPLACED_MS = 86_400_000
"""Time in ms until the announcement of a version that no process runs is deleted, after a newer announcement."""


class AnnouncingApp(Interface):
    """The attributes of an app that its announcement reads."""

    @property
    def config(self) -> Config: ...
    @property
    def registry(self) -> Registry: ...
    @property
    def plans(self) -> SchedulePlans: ...
    @property
    def made_in(self) -> str: ...


def announce(app: AnnouncingApp, name: str) -> Protocol[App]:
    """Announce the app under this name; returns the announcement."""
    whole = announced_app(app, name)
    for part in range(whole.parts):
        some = slice(part * _PART, (part + 1) * _PART)
        partitions = {} if part else whole.partitions
        record = replace(whole, tasks=whole.tasks[some], schedules=whole.schedules[some], partitions=partitions)
        key = f"{name} {whole.app_version or '-'} {whole.code} {part}"
        encoded = msgspec.msgpack.encode(_sent(record))
        yield from put(app.config.prefix, APPS, key, encoded, family=f"{name} ", replaced_ms=_REPLACED_MS)
    return whole


def announce_producer(app: AnnouncingApp) -> Protocol[None]:
    """Announce the app of this process, unless it has no name: neither its setting, nor a variable of a module."""
    if name := app.config.app_name or reference_of(app):
        yield from announce(app, name)


def announced_app(app: AnnouncingApp, name: str) -> App:
    """Describe the tasks, partitions and schedules of the app's code."""
    tasks = sorted(map(_described, app.registry.of(app.registry.queues())), key=lambda task: task.name)
    partitions = dict(sorted(app.config.partitions.counts.items()))
    ten_priorities = sorted(app.config.ten_priorities)
    schedules = sorted({name for plans in app.plans.values() for name in plans})
    return App(
        name=name,
        tasks=tasks,
        partitions=partitions,
        schedules=schedules,
        version=VERSION,
        python=platform.python_version(),
        app_version=app_version(app),
        code=digest(repr((tasks, partitions, schedules, *ten_priorities))),
        codecs={} if app.config.payloads is None else app.config.payloads.kinds,
        parts=max(1, math.ceil(max(len(tasks), len(schedules)) / _PART)),
        ten_priorities=ten_priorities,
    )


def _sent(record: App) -> object:
    """Return what is sent of an announcement: an app without codecs sends no field for them."""
    if record.codecs:
        return record
    return {each.name: getattr(record, each.name) for each in fields(record) if each.name != "codecs"}


def app_version(app: AnnouncingApp) -> str:
    """Return the version of the app's code: its setting, else LOCKWORK_APP_VERSION, else ""."""
    return app.config.app_version or os.environ.get("LOCKWORK_APP_VERSION", "")


def reference_of(app: AnnouncingApp) -> str:
    """Return `module:object` of the app: of the module that made it, or of one of its tasks; "" if there is none."""
    modules = [app.made_in, *(task.function.__module__ for task in app.registry.of(app.registry.queues()))]
    for module in dict.fromkeys(modules):
        if module in sys.modules:
            for variable, value in list(vars(sys.modules[module]).items()):
                if value is app:
                    return f"{_imported_as(module)}:{variable}"
    return ""


def _imported_as(module: str) -> str:
    """Return the import name of a module, even if it was started as a script."""
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
        retry_until_ms=options.retry_until_ms,
        limits=options.limits.stored,
        key=options.grouping.key,
        group=options.grouping.group,
        group_concurrency=limits.at_once or None,
        group_rate=f"{limits.jobs}/{limits.per_ms}ms" if limits.jobs else None,
        version=task.version,
        aliases=list(options.aliases),
        tags=list(options.tags),
        other_queues=[queue for queue in options.other_queues if queue != options.queue],
        unique=options.unique.described() if options.unique else {},
        expires_ms=options.expires_ms,
        replicas=options.replicas,
        keep_result=options.keep_result,
        defaults=_defaults(task),
    )


def _defaults(task: Task[..., object, object]) -> dict[str, Any]:
    """Return the defaults that names of its jobs may use; none of a task that hides its arguments."""
    options, grouping = task.options_in_force, task.options_in_force.grouping
    named = options.unique or any(map(has_braces, filter(None, (grouping.key, grouping.group))))
    return task.signature.plain_defaults() if named and not options.hide_arguments else {}


def _kind(task: Task[..., object, object]) -> Literal["async", "thread", "process", "batch"]:
    if task.batching is not None:
        return "batch"
    if task.options_in_force.in_process:
        return "process"
    return "async" if task.is_async else "thread"
