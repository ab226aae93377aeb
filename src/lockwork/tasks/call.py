"""Calls of tasks that a stock, schedule, lock or flow enqueues, and the results of other jobs among their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar
from typing import Protocol as Interface

from lockwork import codecs
from lockwork.errors import ConfigError
from lockwork.protocol.queue.enqueue import NewJob

R = TypeVar("R")
S = TypeVar("S")
R_contra = TypeVar("R_contra", contravariant=True)
Step = int | str
_DEPTH = 50


@dataclass(frozen=True, slots=True)
class TaskCall:
    """A call of a task, for instance for a stock to enqueue in one step with a reservation."""

    queue: str
    record: bytes
    delay_ms: int

    def check_alone(self) -> None:
        """Raise ConfigError if the call can only be part of a flow."""

    def job(self, id: str) -> NewJob:
        """Return the call as a job."""
        return NewJob(id, self.record, self.delay_ms)


@dataclass(frozen=True, slots=True)
class ResultCall(TaskCall, Generic[R]):
    """A call for a flow, with the type of its result and the results that it uses."""

    task: str
    returns: Any
    keeps_result: bool
    uses: tuple[ResultRef, ...]
    stamp: Callable[[NewJob], NewJob]
    """Adds the headers of its enqueue to a job."""
    callbacks: Callbacks
    """Steps of the flow that follow the call."""

    def check_alone(self) -> None:
        """Raise ConfigError if the call uses results of other jobs, or if other jobs follow it."""
        if self.uses:
            raise ConfigError(f"this call of {self.task!r} uses results of a flow's jobs: add it to that flow")
        if self.callbacks:
            raise ConfigError(
                f"this call of {self.task!r} has {self.callbacks}, so it is a flow of several jobs: enqueue it, or add "
                "it to a flow"
            )

    def job(self, id: str) -> NewJob:
        """Return the call as a job; raises ConfigError if it uses results of other jobs."""
        self.check_alone()
        return self.stamp(NewJob(id, self.record, self.delay_ms))


class NextTask(Interface[R_contra, S]):
    """A task that can be called with one result; its other parameters have defaults."""

    def call(self, result: R_contra, /) -> ResultCall[S]:
        """Return the call that takes the result."""
        ...


Next = NextTask[R, S] | Callable[[R], ResultCall[S]] | ResultCall[S]
"""The next step of a chain: a task that takes the result, a function that makes a call of it, or a call without it."""
Callback = Next[Any, Any]


class Callbacks(NamedTuple):
    """The options `then` and `on_error` of single jobs: what follows a job that succeeds, or fails.

    Each is a call, or a task or function that takes the result, or the error, as a step of a chain does.
    """

    then: tuple[Any, ...] = ()
    on_error: tuple[Any, ...] = ()

    def changed(self, changes: Mapping[str, Any]) -> Callbacks:
        """Return the callbacks with the given options; raises ConfigError."""
        return Callbacks(
            _steps(changes["then"], "then") if "then" in changes else self.then,
            _steps(changes["on_error"], "on_error") if "on_error" in changes else self.on_error,
        )

    def __bool__(self) -> bool:
        return bool(self.then or self.on_error)

    def __str__(self) -> str:
        return " and ".join(f"{name}=" for name, steps in self._asdict().items() if steps)


def _steps(given: Any, option: str) -> tuple[Any, ...]:
    steps = tuple(given) if isinstance(given, list | tuple) else () if given is None else (given,)
    for step in steps:
        if not isinstance(step, ResultCall) and not callable(step):
            raise ConfigError(
                f"{option} must be a call, such as receipt.call(5), a task, a function that returns a call, or a list, "
                f"not {step!r:.60}"
            )
    return steps


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

    @property
    def source(self) -> int:
        """The value that its place in the arguments gets: the result of job N, or the error of job -N."""
        return self.number

    def __format__(self, spec: str) -> str:
        _refused(self)


class ErrorRef(ResultRef):
    """A reference, among a call's arguments, to the error of another job; the call runs only after a failure."""

    __slots__ = ("job",)

    def __init__(self, job: ResultRef) -> None:
        self.job: ResultRef = job
        """The job that may fail."""
        self.number: int = job.number
        self.may_fail: bool = False

    @property
    def source(self) -> int:
        """See `ResultRef.source`."""
        return -self.number

    def __repr__(self) -> str:
        return f"<error of {self.job!r}>"


class _Unknown:
    """Replaces a result reference while keys and groups are built from arguments; each use raises ConfigError."""

    __format__ = __getattr__ = __getitem__ = __repr__ = _refused


class RefPath(NamedTuple):
    """A place of results in the arguments: its path, and the source, or a list of sources (`ResultRef.source`)."""

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
            paths.append(RefPath(path, value.source))
            refs.append(value)
            return instead
        if len(path) > _DEPTH:
            return value
        if type(value) in (list, tuple):
            if value and all(isinstance(one, ResultRef) for one in value):
                paths.append(RefPath(path, [one.source for one in value]))
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
    """Yield the source of each wanted result or error."""
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
