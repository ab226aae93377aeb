"""The tasks that other apps have announced on the server, as tasks of this app without a function."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from logging import INFO, WARNING
from math import inf
from typing import Any

from msgspec.structs import replace

from lockwork.config import Config
from lockwork.errors import ConfigError, ServerRefused
from lockwork.jobs.found import FoundJob
from lockwork.jobs.job import Job, Origin
from lockwork.logs import Log
from lockwork.partitions import Partitions
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys, base_queue, checked
from lockwork.protocol.queue.priority import shown
from lockwork.protocol.queue.task_limits import TaskLimits
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime
from lockwork.suggestions import closest
from lockwork.tasks.enqueue_batcher import EnqueueBatcher
from lockwork.tasks.options import TaskOptions, TaskSettings
from lockwork.tasks.registry import Registry
from lockwork.tasks.task import Task
from lockwork.workers import AnnouncedTask, App, RunningVersions, read_apps, read_running

log: Log = Log("lockwork")

_FRESH = 60.0
"""Seconds until the announcements are read again."""
_UNKNOWN = 1.0
"""The same if they do not have the task."""
_AGAIN = 1.0
"""The same if a call fits no version."""
_MOST_BUILT = 1000


class AnnouncedTasks:
    """Finds tasks by name, and caches the announcements: see TaskDirectory."""

    def __init__(self, runtime: Runtime, config: Config, registry: Registry) -> None:
        self._runtime = runtime
        self._config = config
        self._registry = registry
        self._running = RunningVersions.none()
        self._read_at = -inf
        self._warned: set[str] = set()
        self._built: dict[tuple[str, str | None, Any], list[Task[..., Any, Any]]] = {}

    def find(
        self, name: str, queue: str | None, returns: Any, *, again: bool = False
    ) -> Protocol[list[Task[..., Any, Any]]]:
        """Return the task, once for each version that may run its jobs, the newest first; raises ConfigError.

        A task of this app itself needs no announcement.
        """
        if (own := self._registry.find(name)) is not None:
            return [own if queue in (None, own.options_in_force.queue) else own.options(queue=queue)]
        age = now() - self._read_at
        if age > _FRESH or (age > _AGAIN and again) or (age > _UNKNOWN and not self._running.having(name)):
            yield from self._read()
        key = name, queue, returns
        if key not in self._built:
            if len(self._built) >= _MOST_BUILT:
                self._built.clear()
            self._built[key] = self._build(name, queue, returns)
        return self._built[key]

    def check_partitions(self, task: Task[..., Any, Any]) -> None:
        """Raise ConfigError if this app has another number of partitions for the task's queue."""
        queue, names = task.options_in_force.queue, task.partition_names
        if names != self._config.partitions.names(queue):
            count = 0 if names == [queue] else len(names)
            raise ConfigError(
                f"queue {queue!r} has {count} partitions, as its workers have announced: set "
                f"partitions={{{queue!r}: {count}}} of Lockwork(...), which flows, schedules, locks and stocks use"
            )

    def job(self, id: str, queue: str | None, returns: Any) -> Job[Any]:
        """Return the handle of an existing job; its first call searches the queue, then all others."""
        names = self._config.partitions.names(queue or "default")
        errors = self._registry.context.errors
        origins = [Origin(self._runtime, QueueKeys(self._config.prefix, each), returns, errors) for each in names]
        return FoundJob(origins, checked(id, "a job's id"), everywhere=True)

    def _read(self) -> Protocol[None]:
        """Read the announcements; without the right to read them, there are none."""
        began, self._read_at = self._read_at, now()  # concurrent calls use the cached ones
        try:
            running = yield from _announced(self._config.prefix)
        except BaseException:
            self._read_at = began
            raise
        self._running, self._built = running, {}

    def _build(self, name: str, queue: str | None, returns: Any) -> list[Task[..., Any, Any]]:
        versions = self._running.having(name)
        if not versions:
            close = closest(name, {task.name for app in self._running.apps for task in app.tasks})
            if queue is None:
                hint = f"did you mean {close!r}? Or" if close else "to send calls to it,"
                raise ConfigError(f"no app has announced a task {name!r}: {hint} pass its queue=...")
            if name not in self._warned and len(self._warned) < _MOST_BUILT:
                self._warned.add(name)
                hint = f": did you mean {close!r}?" if close else ""
                # without a similar name, its first worker may not have started yet
                log.log(
                    WARNING if close else INFO, "no app has announced task %r, so calls are not checked%s", name, hint
                )
            return [self._unchecked(name, queue, returns)]
        if queue is None:
            queues = {each.queue for each in {app.name: task for app, task in reversed(versions)}.values()}
            if len(queues) > 1:
                names = ", ".join(map(repr, sorted(queues)))
                raise ConfigError(f"several apps have a task {name!r}, in the queues {names}: pass one as queue=...")
            (queue,) = queues
        else:
            served = {name for each in self._running.workers for name in each.queues if base_queue(name) == queue}
            serving = {app.identity for name in served for app in self._running.of_workers(name)}
            there = [each for each in versions if each[0].identity in serving]
            versions = there or [each for each in versions if queue in each[1].queues] or versions
        tasks: list[Task[..., Any, Any]] = []
        for app, task in versions:
            try:
                tasks.append(self._stand_in(app, task, name, queue, returns))
            except (ValueError, TypeError, LookupError) as error:  # any program with the right can announce anything
                log.warning("the announcement of task %r by app %r cannot be used: %s", name, app.name, error)
        return tasks or [self._unchecked(name, queue, returns)]

    def _unchecked(self, name: str, queue: str, returns: Any) -> Task[..., Any, Any]:
        return self._task(name, ["*args", "**kwargs"], {}, TaskOptions(queue=queue), returns, self._config.partitions)

    def _stand_in(self, app: App, task: AnnouncedTask, name: str, queue: str, returns: Any) -> Task[..., Any, Any]:
        options = replace(
            TaskOptions.read(_settings(task, queue)),
            expires_ms=task.expires_ms,
            retry_until_ms=task.retry_until_ms,
            limits=TaskLimits.read(task.limits),
            keep_result=task.keep_result,
        )
        own, count = self._config.partitions, app.partitions.get(queue)
        partitions = own if queue in own or count is None else Partitions({queue: count})
        return self._task(name, task.parameters, task.defaults, options, returns, partitions)

    def _task(
        self,
        name: str,
        parameters: Iterable[str],
        defaults: dict[str, Any],
        options: TaskOptions,
        returns: Any,
        partitions: Partitions,
    ) -> Task[..., Any, Any]:
        def batchers(queue: str) -> list[EnqueueBatcher]:
            names = partitions.names(queue) if queue in partitions else self._config.partitions.names(queue)
            keys = [QueueKeys(self._config.prefix, each) for each in names]
            return [self._registry.batcher(self._runtime, each) for each in keys]

        function = stand_in(name, parameters, defaults, returns)
        return Task(batchers, self._config, name, function, options, self._registry.context)


def stand_in(name: str, parameters: Iterable[str], defaults: dict[str, Any], returns: Any) -> Any:
    """Return a function with the announced parameters, in place of the one that only the workers have."""

    def function(*args: Any, **kwargs: Any) -> None:
        """Replace the function, which only the workers have."""

    function.__name__ = name
    announced = list(_parameters(parameters, defaults))
    function.__signature__ = inspect.Signature(announced, return_annotation=returns)  # type: ignore[attr-defined]
    return function


def _announced(prefix: str) -> Protocol[RunningVersions]:
    try:
        return (yield from read_running(prefix))
    except ServerRefused:
        pass  # a producer may read apps, but not workers
    try:
        apps = yield from read_apps(prefix)
    except ServerRefused:
        return RunningVersions.none()
    return RunningVersions.of_apps(apps)


def _settings(task: AnnouncedTask, queue: str) -> TaskSettings:
    priority: Any = shown(task.priority)
    settings = TaskSettings(
        queue=queue,
        retries=task.retries,
        max_deliveries=task.max_deliveries,
        priority=priority,
        key=task.key,
        group=task.group,
        group_concurrency=task.group_concurrency,
        group_rate=task.group_rate,
        hide_arguments=task.hidden,
        tags=task.tags,
        replicas=task.replicas,
    )
    unique: Any = task.unique
    settings.update(unique)
    return settings


class _NotAnnounced:
    """The default of a parameter whose value is only in the app's code; a name or digest with it is refused."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __format__(self, spec: str) -> str:
        raise self._refusal()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._refusal()

    def __getitem__(self, key: object) -> Any:
        raise self._refusal()

    def _refusal(self) -> ConfigError:
        return ConfigError(
            f"the default of {self._name!r}, which the key, group or unique name uses, is not known here: pass it"
        )


def _parameters(described: Iterable[str], defaults: dict[str, Any]) -> Iterable[inspect.Parameter]:
    kinds, parts = inspect.Parameter, list(described)
    kind: Any = kinds.POSITIONAL_ONLY if "/" in parts else kinds.POSITIONAL_OR_KEYWORD
    for each in parts:
        name = each.strip("*=")
        if each == "/":
            kind = kinds.POSITIONAL_OR_KEYWORD
        elif each.startswith("**"):
            yield kinds(name, kinds.VAR_KEYWORD)
        elif each.startswith("*"):
            if name:
                yield kinds(name, kinds.VAR_POSITIONAL)
            kind = kinds.KEYWORD_ONLY
        elif each.endswith("="):
            yield kinds(name, kind, default=defaults.get(name, _NotAnnounced(name)))
        else:
            yield kinds(name, kind)
