"""A handle as a decorator: the function runs while it is held, under a name that may come from its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar, overload

from lockwork.errors import ConfigError
from lockwork.naming import Template

P = ParamSpec("P")
R = TypeVar("R")


class Decorating:
    """For handles that `with` and `async with` hold; `_template` makes the name of a call, if the name has braces."""

    name: str
    _template: Template | None

    def _named(self, name: str) -> Self:
        raise NotImplementedError

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Decorate `function`, `async def` or `def`: each call holds this handle while it runs. Raises ConfigError."""
        if not callable(function):
            raise ConfigError(f"{self!r} decorates functions, not {function!r}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(
                f"{function.__qualname__} is a generator, which runs after its call: hold {self!r} inside it"
            )
        naming = None if self._template is None else self._template.bind(function)

        def chosen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return self if naming is None else self._named(naming(*args, **kwargs))

        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):

            @wraps(function)
            async def held(*args: Any, **kwargs: Any) -> Any:
                async with chosen(args, kwargs):
                    return await function(*args, **kwargs)

            return held

        @wraps(function)
        def held_blocking(*args: Any, **kwargs: Any) -> Any:
            with chosen(args, kwargs):
                return function(*args, **kwargs)

        return held_blocking
