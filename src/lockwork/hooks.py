"""Hooks: functions of the app that are told what becomes of jobs. They observe, and change no job's fate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from lockwork.errors import ConfigError
from lockwork.logs import Log

log: Log = Log("lockwork.hooks")


class Again(BaseException):
    """Ends a delivery: the job is to run again after `delay_ms`; no job's `except Exception` keeps it.

    `delay_ms` is None for its task's back-off. A delivery that is not `counted` was no attempt.
    """

    def __init__(self, delay_ms: int | None, *, counted: bool) -> None:
        super().__init__("the job asked to be run again")
        self.delay_ms: int | None = delay_ms
        self.counted: bool = counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The server has acknowledged a job; `args` and `kwargs` are as they were sent, plain JSON. `delay` in seconds."""

    id: str
    task: str
    queue: str
    args: list[Any]
    kwargs: dict[str, Any]
    delay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An attempt begins; `args` and `kwargs` are what the function will get, without what is injected."""

    id: str
    task: str
    queue: str
    attempt: int
    args: list[Any]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """An attempt ended well and is being settled, after so many `seconds`; `result` is what the function returned."""

    id: str
    task: str
    queue: str
    attempt: int
    seconds: float
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An attempt failed, the last one or not; `task` is empty when what came from the server cannot be read.

    `error` is an Again if the job itself called `retry`.
    """

    id: str
    task: str
    queue: str
    attempt: int
    seconds: float
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """A failed job runs again, no earlier than `delay` seconds from now."""

    id: str
    task: str
    queue: str
    attempt: int
    error: BaseException
    delay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A failed job does not run again: it is in the dead set."""

    id: str
    task: str
    queue: str
    attempt: int
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class Snoozed:
    """A job that had begun put itself off for `delay` seconds; that is no attempt, and the next one has its number."""

    id: str
    task: str
    queue: str
    attempt: int
    seconds: float
    delay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """A job that had begun was cancelled, and does not run again."""

    id: str
    task: str
    queue: str
    attempt: int
    seconds: float


OnEnqueue = TypeVar("OnEnqueue", bound=Callable[[Enqueued], None])
OnStart = TypeVar("OnStart", bound=Callable[[Started], object])
OnSuccess = TypeVar("OnSuccess", bound=Callable[[Succeeded], object])
OnFailure = TypeVar("OnFailure", bound=Callable[[Failed], object])
OnRetry = TypeVar("OnRetry", bound=Callable[[Retrying], object])
OnDead = TypeVar("OnDead", bound=Callable[[Died], object])
OnSnooze = TypeVar("OnSnooze", bound=Callable[[Snoozed], object])
OnCancel = TypeVar("OnCancel", bound=Callable[[Cancelled], object])


class Hooks:
    """`@lw.hooks.start` and the like: each method is a decorator. Hooks run in the order of their registration."""

    def __init__(self) -> None:
        self.on_enqueue: tuple[Callable[[Enqueued], object], ...] = ()
        self.on_start: tuple[Callable[[Started], object], ...] = ()
        self.on_success: tuple[Callable[[Succeeded], object], ...] = ()
        self.on_failure: tuple[Callable[[Failed], object], ...] = ()
        self.on_retry: tuple[Callable[[Retrying], object], ...] = ()
        self.on_dead: tuple[Callable[[Died], object], ...] = ()
        self.on_snooze: tuple[Callable[[Snoozed], object], ...] = ()
        self.on_cancel: tuple[Callable[[Cancelled], object], ...] = ()
        self.in_worker: bool = False
        """Whether there is any but enqueue hooks."""

    def enqueue(self, hook: OnEnqueue) -> OnEnqueue:
        """Tell `hook`, a plain function, of each job that this process enqueued, once the server has it."""
        _check(hook)
        if is_async(hook):
            raise ConfigError(
                f"an enqueue hook runs inside of blocking calls, too, and cannot be async def: {_name(hook)}"
            )
        self.on_enqueue += (hook,)
        return hook

    def start(self, hook: OnStart) -> OnStart:
        """Tell `hook` before an attempt begins."""
        _check(hook)
        self.on_start += (hook,)
        self.in_worker = True
        return hook

    def success(self, hook: OnSuccess) -> OnSuccess:
        """Tell `hook` after an attempt that ended well."""
        _check(hook)
        self.on_success += (hook,)
        self.in_worker = True
        return hook

    def failure(self, hook: OnFailure) -> OnFailure:
        """Tell `hook` of each attempt that failed; then retry hooks or dead hooks are told what follows."""
        _check(hook)
        self.on_failure += (hook,)
        self.in_worker = True
        return hook

    def retry(self, hook: OnRetry) -> OnRetry:
        """Tell `hook` of each failed attempt that will be followed by another."""
        _check(hook)
        self.on_retry += (hook,)
        self.in_worker = True
        return hook

    def dead(self, hook: OnDead) -> OnDead:
        """Tell `hook` of each job that goes to the dead set by a failed attempt."""
        _check(hook)
        self.on_dead += (hook,)
        self.in_worker = True
        return hook

    def snooze(self, hook: OnSnooze) -> OnSnooze:
        """Tell `hook` of each job that put itself off; failure and retry hooks are not told of it."""
        _check(hook)
        self.on_snooze += (hook,)
        self.in_worker = True
        return hook

    def cancel(self, hook: OnCancel) -> OnCancel:
        """Tell `hook` of each job that was cancelled after an attempt had begun; failure hooks are not told of it."""
        _check(hook)
        self.on_cancel += (hook,)
        self.in_worker = True
        return hook

    def enqueued(self, events: Iterable[Enqueued]) -> None:
        """Tell the enqueue hooks; what they raise is logged, because the jobs are enqueued by now."""
        for event in events:
            for hook in self.on_enqueue:
                try:
                    hook(event)
                except Exception as error:  # noqa: BLE001 - whatever a hook raises changes nothing
                    complain(hook, "enqueue", event.id, error)


def is_async(hook: Callable[..., Any]) -> bool:
    """Whether it is an `async def`, or an object that is called like one."""
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(type(hook), "__call__", None))  # noqa: B004 - asked for its kind, not whether it is there


def complain(hook: Callable[..., Any], kind: str, id: str, error: BaseException) -> None:
    """Log what a hook raised."""
    log.error("the %s hook %s failed for job %s, which goes on unharmed", kind, _name(hook), id, exc_info=error)


def _check(hook: object) -> None:
    if not callable(hook):
        raise ConfigError(f"a hook is a function that takes one event, not {hook!r}")
    if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
        raise ConfigError(f"a hook is a plain function or an async def, and not a generator: {_name(hook)}")
    try:
        inspect.signature(hook).bind(None)
    except TypeError:
        raise ConfigError(f"a hook takes one argument, the event: {_name(hook)}") from None
    except ValueError:
        pass  # a builtin that does not show what it takes


def _name(hook: Callable[..., Any]) -> str:
    return str(getattr(hook, "__qualname__", None) or repr(hook))
