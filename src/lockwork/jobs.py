"""The job as its producer sees it: an id, how it stands, and its result."""

from __future__ import annotations

from typing import Any, Generic, Literal, NoReturn, TypeVar

from lockwork import codecs
from lockwork.durations import Duration, seconds
from lockwork.errors import JobFailed, ResultTimeout, ResultUnavailable
from lockwork.failures import Errors, Failure
from lockwork.protocol import jobs as protocol
from lockwork.protocol.effects import Protocol
from lockwork.protocol.jobs import Standing
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.runtime import Runtime

R = TypeVar("R")
State = Literal["scheduled", "active", "succeeded", "dead", "unknown"]


class Job(Generic[R]):
    """An enqueued call of a task; `id` and `queue` are all one needs to find it again."""

    __slots__ = ("_errors", "_keys", "_returns", "_runtime", "id", "queue")

    def __init__(
        self, runtime: Runtime, keys: QueueKeys, queue: str, id: str, returns: Any = Any, errors: Errors | None = None
    ) -> None:
        self._runtime = runtime
        self._keys = keys
        self._returns = returns
        self._errors = errors
        self.id: str = id
        self.queue: str = queue

    def result(self, timeout: Duration | None = None) -> R:
        """Wait for the job and return what its function returned; `timeout` None waits as long as it takes.

        Raises the task's own error if its class is registered (`lw.error`), else JobFailed. Raises ResultTimeout, or
        ResultUnavailable when the result is not kept (any more).
        """
        return self._read(self._runtime.run(self._outcome(timeout)))

    async def aresult(self, timeout: Duration | None = None) -> R:
        """The same for a task."""
        return self._read(await self._runtime.arun(self._outcome(timeout)))

    def state(self) -> State:
        """Read how the job stands: scheduled, active (ready or running), succeeded, dead, or unknown."""
        return _state(self._runtime.run(protocol.standing(self._keys, self.id)))

    async def astate(self) -> State:
        """The same for a task."""
        return _state(await self._runtime.arun(protocol.standing(self._keys, self.id)))

    def _outcome(self, timeout: Duration | None) -> Protocol[Standing]:
        limit = None if timeout is None else seconds(timeout, "timeout", zero=True)
        return protocol.outcome(self._keys, self.id, self._runtime.channel, limit)

    def _read(self, found: Standing) -> R:
        if found.state == "unknown":
            raise ResultUnavailable(
                f"nothing is known of job {self.id} in queue {self.queue!r}: its result has expired, or it never was"
            )
        if found.state == "dead" or found.blob[:1] == b"f":
            error = found.blob if found.state == "dead" else found.blob[1:]
            self._raise(Failure.read(error))
        if found.state != "ended":
            raise ResultTimeout(f"job {self.id} in queue {self.queue!r} has not ended yet: it is {found.state}")
        if len(found.blob) == 1:
            raise ResultUnavailable(f"job {self.id} in queue {self.queue!r} succeeded, and its task keeps no result")
        value: R = codecs.convert(codecs.decode(found.blob[1:]), self._returns)
        return value

    def _raise(self, failure: Failure) -> NoReturn:
        message = f"job {self.id} in queue {self.queue!r} failed: {failure}"
        failed = JobFailed(message, failure.type, failure.text, failure.traceback)
        rebuilt = None if self._errors is None else self._errors.rebuilt(failure)
        if rebuilt is None:
            raise failed
        raise rebuilt from failed

    def __repr__(self) -> str:
        return f"<Job {self.id} queue={self.queue!r}>"


def _state(found: Standing) -> State:
    if found.state == "ended":
        return "dead" if found.blob[:1] == b"f" else "succeeded"
    return found.state  # type: ignore[return-value]
