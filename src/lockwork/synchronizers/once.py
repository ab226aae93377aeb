"""Functions that run at most once per period: `lw.once("report", every="1d").run(make_report)`."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, ParamSpec, Self, TypeVar, cast, overload

from msgspec import Struct

from lockwork import codecs, owners
from lockwork.config import Config
from lockwork.durations import Duration, milliseconds, seconds
from lockwork.errors import ConfigError, LockLost, LockworkError, OnceFailed, PayloadRejected, ResultUnavailable
from lockwork.ids import new_id
from lockwork.jobs.current import job_in_requests
from lockwork.lazy import asyncio
from lockwork.locks.decorator import Decorating
from lockwork.naming import has_braces, warn_of_template
from lockwork.payloads.payloads import opened
from lockwork.protocol import keys, names
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks.grants import Granted, Renewal
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.locks.overview import Holder, described, read
from lockwork.protocol.synchronizers import once as once_protocol
from lockwork.protocol.synchronizers.once import EndedRun, OnceRequest, OnceState, State
from lockwork.runtime.clock import now
from lockwork.runtime.drive import no_running_loop
from lockwork.runtime.driver import Action, Actions, aperform, perform
from lockwork.runtime.runtime import Runtime
from lockwork.type_hints import of_function

T = TypeVar("T")
_TEXT = 1000
"""Maximum characters of a stored failure's text."""
_running: set[tuple[str, str]] = set()
"""Owners and keys of the current runs in this process."""


def runs_here(owner: str, key: str) -> bool:
    """Return True if this thread or asyncio task runs the function now."""
    return (owner, key) in _running


class OnceRun:
    """One run of a function: renews its lease, and stores its outcome."""

    def __init__(self, runtime: Runtime, asked: OnceRequest, granted: Granted, cap: int) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._name = asked.name
        self._cap = cap
        self._state: Literal["d", "f", "l"] = "l"
        self._value = b""
        renewal = Renewal(asked.key, asked.owner, granted.fence, asked.lease_ms, once_protocol.SCRIPTS)
        self._lease = Lease(renewal, granted, now(), renewed=True, on_lost=_nothing)
        _running.add((asked.owner, asked.key))
        runtime.engine.keep(self._lease)

    def noted(self, ended: FunctionEnd) -> FunctionEnd:
        """Note how the call ended; a result that cannot be kept, because of its type or size, is a failure."""
        if ended.error is None:
            try:
                value = codecs.exact(ended.value, "the result")
                self._state, self._value = "d", self._sealed(codecs.encode(value, "the result", self._cap))
            except LockworkError as error:
                ended = FunctionEnd(error=error)
        if ended.error is not None:
            self._state, self._value = "f", self._failure(type(ended.error).__name__, str(ended.error))
        return ended

    def interrupted(self, error: BaseException) -> None:
        self._state, self._value = "l", self._failure(type(error).__name__, "its runner was interrupted")

    def _sealed(self, encoded: bytes) -> bytes:
        payloads = self._runtime.payloads
        return encoded if payloads is None else payloads.seal_value("once", "", self._lease.renewal.key, encoded)

    def _failure(self, type: str, text: str) -> bytes:
        try:
            return self._sealed(_failure(type, text))
        except ConfigError as error:  # its text must not be stored unencrypted
            return _failure(type, f"the text of the error is not stored: {error}")

    def over(self, *, quietly: bool = False) -> Protocol[None]:
        """Store the outcome; raises LockLost if the lease was lost and the server does not accept the outcome.

        `quietly`: do not raise.
        """
        if self._process != self._runtime.process:
            return  # this process was forked during the run, and the run belongs to its parent
        renewal, lease = self._lease.renewal, self._lease
        _running.discard((renewal.owner, renewal.key))
        lost = lease.lost or now() >= lease.deadline
        self._runtime.engine.drop(lease)
        try:
            is_stored = yield from once_protocol.end(
                renewal.key, renewal.owner, renewal.fence, self._state, self._value
            )
        except LockworkError:
            if not quietly:
                raise
            return
        # if the lease was not lost, a caller has called `reset`, which is no error
        if not is_stored and lost and not quietly:
            raise LockLost(
                f"once {self._name!r} lost its lease while it ran: it may have run again, "
                "and this run's result is not kept"
            )


class FunctionEnd(Struct, frozen=True):
    """The outcome of a call of the user's function: its value or its error."""

    value: Any = None
    error: Exception | None = None

    def result(self) -> Any:
        """Return the function's value, or raise its error."""
        if self.error is not None:
            raise self.error
        return self.value


def attempt(called: Callable[[], Any]) -> FunctionEnd:
    """Call the function."""
    try:
        return FunctionEnd(called())
    except Exception as error:  # noqa: BLE001 - it is raised again after the run
        return FunctionEnd(error=error)


async def aattempt(called: Callable[[], Any]) -> FunctionEnd:
    """Call an `async def`, or a `def` in a thread."""
    if not inspect.iscoroutinefunction(called):
        return await in_thread(lambda: attempt(called))
    try:
        return FunctionEnd(await called())
    except Exception as error:  # noqa: BLE001 - as in `attempt`
        return FunctionEnd(error=error)


async def in_thread(called: Callable[[], T]) -> T:
    """Call a function in a thread, and wait for its end even if this task is cancelled: the thread cannot be."""
    running = asyncio.ensure_future(asyncio.to_thread(called))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        running.exception()  # mark the error as retrieved
        raise cancelled
    return running.result()


def _failure(type: str, text: str) -> bytes:
    return codecs.encode([type, text.encode(errors="replace").decode()[:_TEXT]], "a failure", 1 << 20)


def _nothing() -> None:
    return None


P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class OnceStatus:
    """The state of this period's run; `holder` runs or ran it, `ends_in` is the seconds until the period ends."""

    state: State
    holder: Holder | None
    fence: int
    ends_in: float


class Once(Decorating):
    """A handle to one named function that runs once per period; threads and tasks may share it.

    The period begins when the run begins, and lasts at least until the run ends.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        every: Duration = "1d",
        *,
        wait: Duration | None = None,
        again_if_lost: bool = False,
    ) -> None:
        self._runtime = runtime
        self._prefix = config.prefix
        self.name: str = names.checked_name(name, self._what())
        self._braced = has_braces(name)
        self._every_ms = milliseconds(every, "every")
        self._wait = None if wait is None else seconds(wait, "wait", zero=True)
        self._again = again_if_lost
        self._lease_ms = milliseconds(config.lock_lease, "lease")
        self._cap = config.max_result

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `function` unless it was called in this period; returns its result, or the stored one.

        A caller that arrives during the run waits for its end, up to the handle's `wait` (0: do not wait; then
        WaitTimeout). Other callers get the result converted through JSON. Raises OnceFailed if the run of this period
        failed, or its process died; the caller that runs the function gets the function's own error.
        """
        no_running_loop()
        self._check(function, "runs")
        if inspect.iscoroutinefunction(function):
            raise ConfigError(f"{_shown(function)} is a coroutine function: await arun(...) instead")
        call = partial(function, *args, **kwargs)
        return cast("R", perform(self._running(function, call)).result())

    @overload
    async def arun(self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def arun(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    async def arun(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Async version of `run`; `function` is `async def`, or `def`, which runs in a thread.

        If cancelled, the run counts as lost. A thread cannot be cancelled, so the call waits for its end first.
        """
        self._check(function, "runs")
        call = partial(function, *args, **kwargs)
        return (await aperform(self._running(function, call))).result()

    def _running(self, function: Callable[..., Any], called: Callable[[], Any]) -> Actions[FunctionEnd]:
        """Call the function, or get the outcome of another caller's run."""
        request = self._asked()
        reply = yield self._runtime.action(lambda: once_protocol.begin(request, self._wait))
        if isinstance(reply, EndedRun):
            return FunctionEnd(self._result(reply, function))
        run = OnceRun(self._runtime, request, reply, self._cap)
        try:
            ended: FunctionEnd = run.noted((yield Action(lambda: attempt(called), lambda: aattempt(called))))
        except BaseException as error:
            run.interrupted(error)
            yield self._runtime.action(lambda: run.over(quietly=True))
            raise
        yield self._runtime.action(lambda: run.over(quietly=ended.error is not None))
        return ended

    def inspect(self) -> OnceStatus:
        """Read the state of this period's run: idle (none yet), running, done, failed or lost."""
        return _status(self._runtime.run(once_protocol.state(self._key())))

    async def ainspect(self) -> OnceStatus:
        """Async version of `inspect`."""
        return _status(await self._runtime.arun(once_protocol.state(self._key())))

    def reset(self) -> None:
        """End the period: the next caller runs the function. A current run continues, but its result is not kept."""
        self._runtime.run(once_protocol.reset(self._key(), new_id()))

    async def areset(self) -> None:
        """Async version of `reset`."""
        await self._runtime.arun(once_protocol.reset(self._key(), new_id()))

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.run(function, *args, **kwargs)

    async def _acall(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return await self.arun(function, *args, **kwargs)

    def _check_decorated(self, function: Callable[..., Any]) -> None:
        self._check(function, "decorates")

    def _check(self, function: object, does: str) -> None:
        if not callable(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(f"{self!r} {does} functions that return their result, not {_shown(function)}")

    def _asked(self) -> OnceRequest:
        key, owner = self._key(), f"{self._runtime.process}:{owners.current().text}"
        if runs_here(owner, key):
            raise OnceFailed(
                f"once {self._shown!r} would wait for itself: it already runs in this thread or task", "", ""
            )
        return OnceRequest(
            key,
            self._shown,
            owner,
            described(new_id(), (), job_in_requests()),
            self._runtime.channel,
            self._lease_ms,
            self._every_ms,
            self._again,
        )

    def _key(self) -> str:
        if self._braced:
            warn_of_template(self.name, self._what())
        return keys.once(self._prefix, self.name)

    @classmethod
    def _what(cls) -> str:
        return "a once's name"

    @property
    def _shown(self) -> str:
        return names.display(self.name)

    def _named(self, name: str) -> Self:
        named = copy.copy(self)
        named.name, named._braced = name, False  # noqa: SLF001 - a handle like this one
        return named

    def _result(self, ended: EndedRun, function: Callable[..., Any]) -> Any:
        if ended.state == "done":
            annotation = of_function(function).get("return", Any)
            try:
                encoded = self._opened(ended.value)
            except PayloadRejected as error:
                raise ResultUnavailable(str(error)) from None
            return codecs.result(encoded, annotation, f"once {self._shown!r}")
        if ended.state == "failed":
            type, text = self._described(ended.value)
            raise OnceFailed(f"once {self._shown!r} failed in this period: {type}: {text}", type, text)
        type, text = (
            self._described(ended.value) if ended.value else ("LockLost", "its runner died, or lost the server")
        )
        raise OnceFailed(f"once {self._shown!r} started in this period and never ended: {text}", type, text)

    def _opened(self, stored: bytes) -> bytes:
        return opened(self._runtime.payloads, "once", "", keys.once(self._prefix, self.name), stored)

    def _described(self, stored: bytes) -> tuple[str, str]:
        """Return the type and the text of a stored error."""
        try:
            type, text = codecs.decode(self._opened(stored))
        except PayloadRejected as error:
            return "PayloadRejected", str(error)
        return type, text

    def __repr__(self) -> str:
        return f"<Once {self._shown!r}>"


def _status(found: OnceState) -> OnceStatus:
    holder = read(found.owner, found.request) if found.owner else None
    return OnceStatus(found.state, holder, found.fence, found.ends_in)


def _shown(function: object) -> str:
    return getattr(function, "__qualname__", repr(function))
