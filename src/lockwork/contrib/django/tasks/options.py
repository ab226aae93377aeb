"""The options of tasks, in OPTIONS, `@task(...)` and `using(...)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from inspect import get_annotations
from typing import Any, Self

from django.utils.module_loading import import_string

from lockwork.config import check_names
from lockwork.contrib.django.tasks.framework import AnyTask, InvalidTask, Task
from lockwork.errors import ConfigError
from lockwork.tasks.options import CallSettings, TaskOptions, TaskSettings


class _Unset(Enum):
    """The value of an option that the task does not set; None is a value of many options."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return self.value


UNSET: Any = _Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LockworkTask(AnyTask):
    """A task with the options of Lockwork; see `lockwork.Lockwork.task`."""

    aliases: Any = UNSET
    backoff: Any = UNSET
    concurrency: Any = UNSET
    debounce: Any = UNSET
    debounce_max: Any = UNSET
    executor: Any = UNSET
    expires: Any = UNSET
    give_up_on: Any = UNSET
    group: Any = UNSET
    group_concurrency: Any = UNSET
    group_rate: Any = UNSET
    hard_timeout: Any = UNSET
    hide_arguments: Any = UNSET
    key: Any = UNSET
    max_deliveries: Any = UNSET
    on_commit: Any = UNSET
    on_duplicate: Any = UNSET
    pause_after: Any = UNSET
    pause_for: Any = UNSET
    rate: Any = UNSET
    replicas: Any = UNSET
    result_ttl: Any = UNSET
    retries: Any = UNSET
    retry_on: Any = UNSET
    retry_until: Any = UNSET
    tags: Any = UNSET
    timeout: Any = UNSET
    unique: Any = UNSET
    unique_until: Any = UNSET

    def __new__(cls, **given: Any) -> Self:
        """Check the names: raises InvalidTask, with a suggestion."""
        _check(given, OPTIONS, "a task has no option", _OF_DJANGO)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        """Make the task hashable, and let its backend check it."""
        for name in OPTIONS:
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))
        Task.__post_init__(self)

    def using(self, **changes: Any) -> LockworkTask:
        """Return the task with other options for single jobs; raises InvalidTask."""
        _check(changes, JOB_OPTIONS, "a job has no option", {*_OF_DJANGO} - {"takes_context"})
        return replace(self, **{name: value for name, value in changes.items() if value is not None or name in OPTIONS})

    def __repr__(self) -> str:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not UNSET)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        changes = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "func"}
        return _found_again, (self.module_path, changes)


_OF_DJANGO = ("func", "priority", "backend", "queue_name", "run_after", "takes_context")
OPTIONS: tuple[str, ...] = tuple(each.name for each in fields(LockworkTask) if each.name not in _OF_DJANGO)
"""The names of Lockwork's options."""
JOB_OPTIONS: tuple[str, ...] = tuple(name for name in OPTIONS if name in get_annotations(CallSettings))
"""The names of the options that a single job may change."""
_ELSEWHERE = {
    "at": "use run_after",
    "id": "Django's tasks have no own ids: use unique",
    "countdown": "use run_after",
    "eta": "use run_after",
    "delay": "use run_after",
    "queue": "use queue_name",
    "name": "a task has the import path of its function as its name",
    "keep_result": "results are always kept: set result_ttl",
    "other_queues": "list them in QUEUES",
}
_WITHOUT: Mapping[str, Any] = {
    "backoff": 1,
    "expires": None,
    "give_up_on": (),
    "group": None,
    "hard_timeout": None,
    "key": None,
    "max_deliveries": None,
    "replicas": 0,
    "retry_on": None,
    "retry_until": None,
    "tags": (),
    "timeout": None,
    "unique": None,
}
"""The value that removes an option of the registered task from a job."""
_DEFAULTS: Mapping[str, Any] = {"retries": 0, "result_ttl": "1d"}
"""Differ from the defaults of `lw.task`: Django's other backends run a task once."""


def read_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check the OPTIONS of a backend, and return the options of its tasks; raises ConfigError."""
    known = [name for name in OPTIONS if name != "aliases"]
    _check_names(given, known, "OPTIONS has no option", ())
    defaults = {**_DEFAULTS, **given}
    settings: Any = defaults
    TaskOptions.read(settings)
    if defaults["result_ttl"] is None:
        raise ConfigError('result_ttl must be a time, such as "1d"')
    return defaults


def settings_of(task: AnyTask, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a task: the defaults of its backend, and its own."""
    own = {name: getattr(task, name, UNSET) for name in OPTIONS}
    return {**defaults, **{name: value for name, value in own.items() if value is not UNSET}}


def changes_between(registered: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for single jobs that differ from the options of the registered task; raises InvalidTask."""
    changes: dict[str, Any] = {}
    for name in {**registered, **wanted}:
        if name in registered and name in wanted and registered[name] == wanted[name]:
            continue
        if name not in JOB_OPTIONS:
            raise InvalidTask(f"the option {name} is one of the task: set it in @task({name}=...)")
        if name in wanted:
            changes[name] = wanted[name]
        elif name in _WITHOUT:
            changes[name] = _WITHOUT[name]
    return changes


def own_options(task: AnyTask, base: AnyTask) -> dict[str, Any]:
    """Return the options of the task that differ from the base's, as far as JSON can hold them."""
    found = {name: getattr(task, name, UNSET) for name in JOB_OPTIONS}
    return {
        name: value
        for name, value in found.items()
        if value != getattr(base, name, UNSET) and (value is None or isinstance(value, bool | int | float | str))
    }


def _check(given: Mapping[str, Any], known: Iterable[str], complaint: str, more: Iterable[str]) -> None:
    try:
        _check_names(given, known, complaint, more)
    except ConfigError as error:
        raise InvalidTask(str(error)) from None


def _check_names(given: Mapping[str, Any], known: Iterable[str], complaint: str, more: Iterable[str]) -> None:
    for name in given:
        if name in _ELSEWHERE:
            raise ConfigError(f"{complaint} {name!r}: {_ELSEWHERE[name]}")
    names = dict.fromkeys((*known, *more), Any)
    where = "set it for the task, @task({name}=...)"
    check_names(given, type("Known", (), {"__annotations__": names}), complaint, (TaskSettings.__annotations__, where))


def _found_again(path: str, changes: dict[str, Any]) -> LockworkTask:
    """Return a pickled task; raises ValueError if there is no task at its path any more."""
    try:
        return LockworkTask(func=import_string(path).func, **changes)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"Expected {path!r} to point to a Task instance.") from error
