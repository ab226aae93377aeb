"""Hooks: functions of the app that are called at each step of a job. They cannot change its outcome."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec import Struct

from lockwork.errors import ConfigError
from lockwork.logs import Log

log: Log = Log("lockwork.hooks")


class Again(BaseException):
    """Ends a delivery: the job runs again after `delay_ms`. A job's `except Exception` does not catch it.

    `delay_ms`: None for the task's backoff. `counted`: whether the delivery counts as an attempt.
    """

    def __init__(self, delay_ms: int | None, *, counted: bool) -> None:
        super().__init__("the job asked to be run again")
        self.delay_ms: int | None = delay_ms
        self.counted: bool = counted


class Enqueued(Struct, frozen=True, kw_only=True):
    """The server has acknowledged a job. `args` and `kwargs` are the sent plain JSON; `delay` is in seconds."""

    id: str
    task: str
    queue: str
    args: list[Any]
    kwargs: dict[str, Any]
    delay: float


class Started(Struct, frozen=True, kw_only=True):
    """An attempt begins; `args` and `kwargs` are the converted arguments, without injected ones."""

    id: str
    task: str
    queue: str
    attempt: int
    args: list[Any]
    kwargs: dict[str, Any]


class Succeeded(Struct, frozen=True, kw_only=True):
    """An attempt succeeded after `seconds`, and is being settled; `result` is the return value."""

    id: str
    task: str
    queue: str
    attempt: int
    seconds: float
    result: Any


class Failed(Struct, frozen=True, kw_only=True):
    """An attempt failed; it may be the last one. `task` is empty if the stored job cannot be read.

    `error` is an Again if the job itself called `retry`.
    """

    id: str
    task: str
    queue: str
    attempt: int
    seconds: float
    error: BaseException


class Retrying(Struct, frozen=True, kw_only=True):
    """A failed job runs again in `delay` seconds or later."""

    id: str
    task: str
    queue: str
    attempt: int
    error: BaseException
    delay: float


class Died(Struct, frozen=True, kw_only=True):
    """A failed job does not run again: it goes to the dead set."""

    id: str
    task: str
    queue: str
    attempt: int
    error: BaseException


class Snoozed(Struct, frozen=True, kw_only=True):
    """A running job snoozed for `delay` seconds. It does not count as an attempt: the next run has the same number."""

    id: str
    task: str
    queue: str
    attempt: int
    seconds: float
    delay: float


class Cancelled(Struct, frozen=True, kw_only=True):
    """A running job was cancelled, and does not run again."""

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
        """True if a worker has hooks to call: any hooks except enqueue hooks."""

    def enqueue(self, hook: OnEnqueue) -> OnEnqueue:
        """Call `hook`, a plain function, for each job that this process enqueued, when the server has it."""
        _check(hook)
        if is_async(hook):
            raise ConfigError(
                f"an enqueue hook also runs inside blocking calls, so it cannot be async def: {_name(hook)}"
            )
        self.on_enqueue += (hook,)
        return hook

    def start(self, hook: OnStart) -> OnStart:
        """Call `hook` before each attempt."""
        _check(hook)
        self.on_start += (hook,)
        self.in_worker = True
        return hook

    def success(self, hook: OnSuccess) -> OnSuccess:
        """Call `hook` after each attempt that succeeded."""
        _check(hook)
        self.on_success += (hook,)
        self.in_worker = True
        return hook

    def failure(self, hook: OnFailure) -> OnFailure:
        """Call `hook` after each failed attempt; retry hooks or dead hooks follow."""
        _check(hook)
        self.on_failure += (hook,)
        self.in_worker = True
        return hook

    def retry(self, hook: OnRetry) -> OnRetry:
        """Call `hook` after each failed attempt that is retried."""
        _check(hook)
        self.on_retry += (hook,)
        self.in_worker = True
        return hook

    def dead(self, hook: OnDead) -> OnDead:
        """Call `hook` for each job that goes to the dead set after a failed attempt."""
        _check(hook)
        self.on_dead += (hook,)
        self.in_worker = True
        return hook

    def snooze(self, hook: OnSnooze) -> OnSnooze:
        """Call `hook` for each job that snoozed; failure and retry hooks are not called for it."""
        _check(hook)
        self.on_snooze += (hook,)
        self.in_worker = True
        return hook

    def cancel(self, hook: OnCancel) -> OnCancel:
        """Call `hook` for each job that was cancelled while it ran; failure hooks are not called for it."""
        _check(hook)
        self.on_cancel += (hook,)
        self.in_worker = True
        return hook

    def enqueued(self, events: Iterable[Enqueued]) -> None:
        """Call the enqueue hooks; their errors are logged, because the jobs are enqueued already."""
        for event in events:
            for hook in self.on_enqueue:
                try:
                    hook(event)
                except Exception as error:  # noqa: BLE001 - an error of a hook changes nothing
                    complain(hook, "enqueue", event.id, error)


def is_async(hook: Callable[..., Any]) -> bool:
    """Return True for an `async def`, and for an object with an async `__call__`."""
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(type(hook), "__call__", None))  # noqa: B004 - asks for its kind, not whether it exists


def complain(hook: Callable[..., Any], kind: str, id: str, error: BaseException) -> None:
    """Log the error of a hook."""
    log.error("the %s hook %s failed for job %s; the job continues", kind, _name(hook), id, exc_info=error)


def _check(hook: object) -> None:
    if not callable(hook):
        raise ConfigError(f"a hook must be a function that takes one event, not {hook!r}")
    if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
        raise ConfigError(f"a hook must be a plain function or an async def, not a generator: {_name(hook)}")
    try:
        inspect.signature(hook).bind(None)
    except TypeError:
        raise ConfigError(f"a hook must take one argument, the event: {_name(hook)}") from None
    except ValueError:
        pass  # a builtin without a signature


def _name(hook: Callable[..., Any]) -> str:
    return str(getattr(hook, "__qualname__", None) or repr(hook))
