"""Calls of tasks that a stock, schedule, lock or flow enqueues, and the results of other jobs among their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from msgspec import Struct

from lockwork import codecs
from lockwork.errors import ConfigError
from lockwork.protocol.queue.enqueue import NewJob

R = TypeVar("R")
Step = int | str
_DEPTH = 50


class TaskCall(Struct, frozen=True):
    """A call of a task, for instance for a stock to enqueue in one step with a reservation."""

    queue: str
    record: bytes
    delay_ms: int

    def check_alone(self) -> None:
        """Raise ConfigError if the call can only be part of a flow."""

    def job(self, id: str) -> NewJob:
        """Return the call as a job."""
        return NewJob(id, self.record, self.delay_ms)


class ResultCall(TaskCall, Generic[R], frozen=True):
    """A call for a flow, with the type of its result and the results that it uses."""

    task: str
    returns: Any
    keeps_result: bool
    uses: tuple[ResultRef, ...]
    stamp: Callable[[NewJob], NewJob]
    """Adds the headers of its enqueue to a job."""

    def check_alone(self) -> None:
        """Raise ConfigError if the call uses results of other jobs."""
        if self.uses:
            raise ConfigError(f"this call of {self.task!r} uses results of a flow's jobs: add it to that flow")

    def job(self, id: str) -> NewJob:
        """Return the call as a job; raises ConfigError if it uses results of other jobs."""
        self.check_alone()
        return self.stamp(NewJob(id, self.record, self.delay_ms))


def _refused(self: object, *_: object) -> NoReturn:  # noqa: ARG001 - as a method
    raise ConfigError(
        "the result of a flow's job is not known yet, and cannot be part of a text, nor of a key or group: pass "
        "the node itself as an argument"
    )


class ResultRef:
    """A reference, among a call's arguments, to the result of another job of the same flow."""

    number: int
    may_fail: bool
    """Use None as the result of a failed job."""

    def __format__(self, spec: str) -> str:
        _refused(self)


class _Unknown:
    """Replaces a result reference while keys and groups are built from arguments; each use raises ConfigError."""

    __format__ = __getattr__ = __getitem__ = __repr__ = _refused


class RefPath(NamedTuple):
    """A place of a result in the arguments: its path, and the number of the job, or of the jobs of a list."""

    path: list[Step]
    source: int | list[int]


class Extracted(NamedTuple):
    """Arguments without their result references, and the paths of the references."""

    args: list[Any]
    kwargs: dict[str, Any]
    paths: list[RefPath]
    refs: list[ResultRef]


def extract(args: Any, kwargs: dict[str, Any]) -> Extracted | None:
    """Take result references out of arguments, and out of lists and dicts in them; None if there are none."""
    extraction = _extracted(args, kwargs, None)
    return extraction if extraction.paths else None


def for_names(args: Any, kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments for building keys and groups; each use of a result reference in them raises ConfigError."""
    extraction = _extracted(args, kwargs, _Unknown())
    return extraction.args, extraction.kwargs


def _extracted(args: Any, kwargs: dict[str, Any], instead: Any) -> Extracted:
    paths: list[RefPath] = []
    refs: list[ResultRef] = []

    def walked(value: Any, path: list[Step]) -> Any:
        if isinstance(value, ResultRef):
            paths.append(RefPath(path, value.number))
            refs.append(value)
            return instead
        if len(path) > _DEPTH:
            return value
        if type(value) in (list, tuple):
            if value and all(isinstance(one, ResultRef) for one in value):
                paths.append(RefPath(path, [one.number for one in value]))
                refs.extend(value)
                return instead
            return type(value)(walked(one, [*path, at]) for at, one in enumerate(value))
        if type(value) is dict:
            return {name: walked(one, [*path, _as_json(name)]) for name, one in value.items()}
        return value

    positional = [walked(value, [at]) for at, value in enumerate(args)]
    named = {name: walked(value, [name]) for name, value in kwargs.items()}
    return Extracted(positional, named, paths, refs)


def sources(paths: list[Any]) -> Iterator[int]:
    """Yield the number of the job of each result that is wanted."""
    for _, source in paths:
        yield from source if isinstance(source, list) else [source]


def bind(args: list[Any], kwargs: dict[str, Any], paths: list[Any], results: dict[int, Any]) -> None:
    """Put results where the references were; raises LookupError or TypeError for a path that leads nowhere."""
    for path, source in paths:
        value = [results[one] for one in source] if isinstance(source, list) else results[source]
        place: Any = args if isinstance(path[0], int) else kwargs
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value


def _as_json(key: Any) -> str:
    """Return a dict's key as JSON writes it."""
    if type(key) is str:
        return key
    (text,) = codecs.decode(codecs.encode({key: 0}, "a dict's key", 1 << 20))
    return str(text)
