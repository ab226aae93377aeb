"""Batch tasks: how many jobs share one call, and the signature of a single job of a function that takes a list."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, TypedDict, Union

from msgspec import Struct

from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError
from lockwork.type_hints import Unread, of_function
from lockwork.validation import whole

_MOST = 10_000
_LONGEST = 60.0
_LISTS = (list, collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable)
_RESULTS = (list, tuple, collections.abc.Sequence)
_OPEN = (Any, object, inspect.Parameter.empty)


class BatchSettings(TypedDict, total=False):
    """The options of `lw.task` that make it a batch task: its function takes a list, with one item of each job."""

    batch: int
    """Maximum number of jobs per call."""
    linger: Duration
    """Time that a call waits for more jobs; default 0: it takes the jobs that are ready."""


class Batching(Struct, frozen=True):
    """Batch size and waiting time of a batch task; `linger` in seconds."""

    size: int
    linger: float = 0.0

    @classmethod
    def read(cls, batch: object, linger: Duration | None) -> Batching | None:
        """Check the options; None without `batch`. Raises ConfigError."""
        if batch is None:
            if linger is not None:
                raise ConfigError("linger is how long a batch waits for more jobs, so it needs batch=...")
            return None
        size = whole(batch, "batch", 1, _MOST)
        wait = 0.0 if linger is None else seconds(linger, "linger", zero=True)
        if wait > _LONGEST:
            raise ConfigError(
                f"linger must be at most 1 minute, not {linger!r}: the jobs wait in the worker during this time"
            )
        return cls(size, wait)


def of_one(function: Callable[..., Any], injected: frozenset[str]) -> Callable[[Any], Any]:
    """Make a function with the signature of one job: it takes an `item`, and returns one result.

    Raises ConfigError for a function that does not take one list, or returns neither a list nor None.
    """
    parameters = [one for one in inspect.signature(function).parameters.values() if one.name not in injected]
    hints = of_function(function)
    if len(parameters) != 1 or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise _unfit(function, f"it takes {', '.join(one.name for one in parameters) or 'nothing'}")

    def item_of(hint: Any) -> Any:
        item = _element(hint, _LISTS)
        if item is None:
            raise _unfit(function, f"its {parameters[0].name} is not a list")
        return item

    def result_of(hint: Any) -> Any:
        result = hint if hint in (None, type(None)) else _element(hint, _RESULTS)
        if result is None and hint is not None:
            raise _unfit(function, "it returns neither a list nor None")
        return _without_errors(result)

    def one(item: Any) -> Any:
        return function([item])

    one.__name__ = getattr(function, "__name__", "one")
    item = _changed(hints.get(parameters[0].name, Any), item_of)
    result = _changed(hints.get("return", Any), result_of)
    parameter = inspect.Parameter("item", inspect.Parameter.POSITIONAL_ONLY, annotation=item)
    signature = inspect.Signature([parameter], return_annotation=result)
    one.__signature__ = signature  # type: ignore[attr-defined]  # inspect looks for it
    return one


def _changed(hint: Any, change: Callable[[Any], Any]) -> Any:
    return hint.then(change) if isinstance(hint, Unread) else change(hint)


def _unfit(function: Callable[..., Any], why: str) -> ConfigError:
    name = getattr(function, "__qualname__", repr(function)).replace("<locals>.", "")
    return ConfigError(
        f"a batch task takes one list with an item of each job, and returns a list with a result for each, or None, "
        f"as in def index(pages: list[str]) -> list[int]; {name} does not: {why}"
    )


def _element(hint: Any, lists: tuple[Any, ...]) -> Any:
    """Return the annotated type of a list's elements; None if the hint is not a list."""
    if any(hint is one for one in _OPEN):
        return Any
    origin = typing.get_origin(hint) or hint
    if not any(origin is one for one in lists):
        return None
    inside = typing.get_args(hint)
    if origin is tuple and (len(inside) != 2 or inside[1] is not ...):
        return Any
    return inside[0] if inside and not isinstance(inside[0], typing.TypeVar) else Any


def _without_errors(hint: Any) -> Any:
    """Return the type of a result without the exceptions that mark an item as failed."""
    if typing.get_origin(hint) not in (Union, types.UnionType):
        return Any if _is_error(hint) else hint
    results = tuple(one for one in typing.get_args(hint) if not _is_error(one))
    return Union[results] if results else Any  # noqa: UP007 - made at run time


def _is_error(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseException)
