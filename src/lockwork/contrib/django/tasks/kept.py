"""The facts about a job that are kept for its TaskResult: each attempt with its worker, times and error.

A register of the queue holds them (`QueueKeys.kept`), because a queue deletes the record of a job that succeeded, and
its history is a sample. The worker writes it before and after each attempt, under the fence of its delivery.
"""

from __future__ import annotations

import builtins
from dataclasses import asdict, dataclass, field, replace
from traceback import format_exception
from typing import Any

import msgspec

from lockwork import errors
from lockwork.errors import WorkerDied
from lockwork.failures import exc_info, sendable
from lockwork.ids import new_id
from lockwork.payloads.payloads import Payloads, opened
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.locks import fenced_register

FACTS = "django"
"""The field of a job's record with its Facts."""
_LONGEST = 50_000
_MOST_BYTES = 4 << 20
_SHORT = 400
_GRACE_MS = 60_000
_UNENDED_MS = 30 * 86_400_000
"""Time that the facts about a job that may run again are kept after an attempt."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The parts of a task that its job carries: the alias of the backend, and what `using` has changed."""

    backend: str
    priority: int = 0
    run_after: str | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def fields(self) -> dict[str, Any]:
        """Return the field of the record."""
        return {FACTS: asdict(self)}

    @classmethod
    def of_call(cls, call: Any) -> Facts | None:
        """Read the facts in a decoded call; None for the job of another task."""
        carried = call[3].get(FACTS) if isinstance(call, list) and len(call) > 3 and isinstance(call[3], dict) else None
        try:
            return msgspec.convert(carried, cls)
        except msgspec.ValidationError:
            return None


@dataclass(frozen=True, slots=True)
class KeptAttempt:
    """One attempt; times in µs since 1970, by the server's clock at its start."""

    number: int
    worker: str
    started: int
    ended: int = 0
    """0: it runs, or its process died."""
    error: str = ""
    """The import path of the exception's class."""
    traceback: str = ""

    def failed(self, error: BaseException, ended: int) -> KeptAttempt:
        """Return the attempt after this error."""
        return replace(self, ended=ended, error=import_path(type(error)), traceback=formatted(error))


@dataclass(frozen=True, slots=True)
class Kept:
    """The kept facts about one job."""

    task: str
    facts: Facts
    enqueued: int
    """In ms since 1970, by the clock of the process that enqueued it."""
    args: list[Any] = field(default_factory=list[Any])
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    attempts: list[KeptAttempt] = field(default_factory=list[KeptAttempt])
    ending: str = ""
    """The end of the job: "success", "dead", "cancel" or "expire"; empty while it may run again."""
    ended: int = 0

    @classmethod
    def read(cls, stored: bytes) -> Kept | None:
        """Read the value of a register; None for other data."""
        try:
            return msgspec.json.decode(stored, type=cls)
        except msgspec.MsgspecError:
            return None

    def before(self, number: int) -> list[KeptAttempt]:
        """Return the attempts before this one."""
        return [each for each in self.attempts if each.number < number]

    def encoded(self) -> bytes:
        """Encode it; shortens the tracebacks if it would be too large."""
        encoded = msgspec.json.encode(self)
        if len(encoded) <= _MOST_BYTES:
            return encoded
        shortened = [replace(each, traceback=each.traceback[-_SHORT:]) for each in self.attempts]
        return msgspec.json.encode(replace(self, attempts=shortened))


def write(
    queue: QueueKeys, id: str, kept: Kept, fence: int, result_ms: int, payloads: Payloads | None
) -> Protocol[None]:
    """Write the facts, for as long as the result is kept; raises StaleFence if a later delivery has written."""
    ttl_ms = result_ms + (_GRACE_MS if kept.ending else _UNENDED_MS)
    encoded = kept.encoded()
    if payloads is not None:
        encoded = payloads.seal_value("attempts", queue.name, id, encoded)
    return fenced_register.write(queue.kept(id), id, new_id(), encoded, fence, strict=False, ttl_ms=ttl_ms)


def read(queue: QueueKeys, id: str, payloads: Payloads | None) -> Protocol[Kept | None]:
    """Read the facts; None if there are none. Raises PayloadRejected."""
    stored = yield from fenced_register.read(queue.kept(id))
    return None if stored is None else Kept.read(opened(payloads, "attempts", queue.name, id, stored[0]))


def formatted(error: BaseException) -> str:
    """Return the traceback as text, bounded at its beginning."""
    try:
        text = "".join(format_exception(*exc_info(error)))
    except Exception:  # noqa: BLE001 - it reads attributes of the error, which may fail in any way
        text = f"{import_path(type(error))}\n"
    return sendable(text if len(text) <= _LONGEST else f"...\n{text[-_LONGEST:]}")


def import_path(kind: type[BaseException]) -> str:
    """Return the import path of the class, or of its nearest base that Django's `import_string` finds."""
    for each in kind.__mro__:
        path = f"{each.__module__}.{each.__qualname__}"
        if "." not in each.__qualname__ and each.__module__ != "__main__":
            return path
    return "builtins.Exception"


def path_of_name(name: str) -> str:
    """Return the import path of an error of Lockwork, or of Python, from the name of its class."""
    if isinstance(getattr(errors, name, None), type):
        return f"{errors.__name__}.{name}"
    found = getattr(builtins, name, None)
    known = isinstance(found, type) and issubclass(found, BaseException)
    return f"builtins.{name}" if known else import_path(WorkerDied)
