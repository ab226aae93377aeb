"""Promises: what stands in a call's arguments for the result of another job of the same flow, until that is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from lockwork import codecs
from lockwork.errors import ConfigError

Step = int | str
_DEPTH = 50


def _refused(self: object, *_: object) -> NoReturn:  # noqa: ARG001 - as a method
    raise ConfigError(
        "the result of a flow's job is not known yet, and cannot be part of a text, nor of a key or group: pass "
        "the node itself as an argument"
    )


class ResultRef:
    """Stands for the result of a job of a flow."""

    number: int
    may_fail: bool
    """Whether None stands for the result of a job that failed."""

    def __format__(self, spec: str) -> str:
        _refused(self)


class _Unknown:
    """Stands for a result where names are made of arguments: it refuses whatever a template asks of it."""

    __format__ = __getattr__ = __getitem__ = __repr__ = _refused


class RefPath(NamedTuple):
    """Where results go: the way there from the arguments, and the number of the job, or those of a list's elements."""

    way: list[Step]
    source: int | list[int]


class Extracted(NamedTuple):
    """Arguments without their promises, and where those were."""

    args: list[Any]
    kwargs: dict[str, Any]
    holes: list[RefPath]
    promises: list[ResultRef]


def extract(args: Any, kwargs: dict[str, Any]) -> Extracted | None:
    """Take promises out of arguments, and out of lists and dicts in them; None when there are none."""
    taken = _taken(args, kwargs, None)
    return taken if taken.holes else None


def for_names(args: Any, kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as keys and groups are made of them: a promise has nothing to be made of, not even its number."""
    taken = _taken(args, kwargs, _Unknown())
    return taken.args, taken.kwargs


def _taken(args: Any, kwargs: dict[str, Any], instead: Any) -> Extracted:
    holes: list[RefPath] = []
    promises: list[ResultRef] = []

    def walked(value: Any, way: list[Step]) -> Any:
        if isinstance(value, ResultRef):
            holes.append(RefPath(way, value.number))
            promises.append(value)
            return instead
        if len(way) > _DEPTH:
            return value
        if type(value) in (list, tuple):
            if value and all(isinstance(one, ResultRef) for one in value):
                holes.append(RefPath(way, [one.number for one in value]))
                promises.extend(value)
                return instead
            return type(value)(walked(one, [*way, at]) for at, one in enumerate(value))
        if type(value) is dict:
            return {name: walked(one, [*way, _written(name)]) for name, one in value.items()}
        return value

    positional = [walked(value, [at]) for at, value in enumerate(args)]
    named = {name: walked(value, [name]) for name, value in kwargs.items()}
    return Extracted(positional, named, holes, promises)


def sources(holes: list[Any]) -> Iterator[int]:
    """The numbers of the jobs whose results are wanted, as often as they are."""
    for _, source in holes:
        yield from source if isinstance(source, list) else [source]


def bind(args: list[Any], kwargs: dict[str, Any], holes: list[Any], results: dict[int, Any]) -> None:
    """Put results where the promises were; raises LookupError or TypeError for a way that leads nowhere."""
    for way, source in holes:
        value = [results[one] for one in source] if isinstance(source, list) else results[source]
        place: Any = args if isinstance(way[0], int) else kwargs
        for step in way[:-1]:
            place = place[step]
        place[way[-1]] = value


def _written(key: Any) -> str:
    """A dict's key as it will be once JSON has written it."""
    if type(key) is str:
        return key
    (text,) = codecs.decode(codecs.encode({key: 0}, "a dict's key", 1 << 20))
    return str(text)
