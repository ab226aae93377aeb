"""A handle as a decorator: each call goes through the handle, whose name may come from the call's arguments."""

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
    """For handles that decorate functions; if the name has braces (`_braced`), it is the template of a call's name.

    Each call holds the handle, with `with` or `async with`; a subclass may do something else.
    """

    name: str
    _braced: bool

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Decorate `function`, `async def` or `def`: each call holds this handle, or runs through it.

        Raises ConfigError.
        """
        self._check_decorated(function)
        naming = Template(self.name, self._what()).bind(function) if self._braced else None
        chosen = self._chosen

        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):

            @wraps(function)
            async def through(*args: Any, **kwargs: Any) -> Any:
                return await chosen(naming, args, kwargs)._acall(function, args, kwargs)  # noqa: SLF001 - like this one

            return through

        @wraps(function)
        def through_blocking(*args: Any, **kwargs: Any) -> Any:
            return chosen(naming, args, kwargs)._call(function, args, kwargs)  # noqa: SLF001 - a handle like this one

        return through_blocking

    @classmethod
    def _what(cls) -> str:
        """Return the term for the name in errors."""
        raise NotImplementedError

    def _check_decorated(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ConfigError(f"{self!r} decorates functions, not {function!r}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(
                f"{function.__qualname__} is a generator, which runs after its call: acquire {self!r} inside it"
            )

    def _chosen(self, naming: Callable[..., str] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        return self if naming is None else self._named(naming(*args, **kwargs))

    def _named(self, name: str) -> Self:
        """The same handle for another name."""
        raise NotImplementedError

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        held: Any = self
        with held:
            return function(*args, **kwargs)

    async def _acall(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        held: Any = self
        async with held:
            return await function(*args, **kwargs)
