"""The injection API for users: `Depends` marks parameters, and `Overrides` replaces providers in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NoReturn

from lockwork.errors import ConfigError

Scope = Literal["job", "worker"]


class Depends:
    """Marks an injected parameter: for `db: Annotated[Db, Depends(get_db)]`, `get_db` provides the value.

    A provider is a class, a function (`async def` or `def`), or a generator function of either kind with one `yield`;
    the code after the `yield` cleans up. Its own parameters are injected, too. With scope "job" it provides a new value
    for each attempt, with "worker" one value per worker process, until the process ends.
    """

    __slots__ = ("provider", "scope")

    def __init__(self, provider: Callable[..., Any], *, scope: Scope = "job") -> None:
        if not callable(provider):
            raise ConfigError(f"Depends needs a function that provides the value, not {provider!r}")
        if scope not in ("job", "worker"):
            raise ConfigError(f"a dependency's scope is 'job' or 'worker', not {scope!r}")
        self.provider: Callable[..., Any] = provider
        self.scope: Scope = scope

    def __repr__(self) -> str:
        return f"Depends({named(self.provider)}, scope={self.scope!r})"


class _Injected:
    """The default of an injected parameter, for type checkers and for calls that omit the parameter."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # inspect, copy and similar modules get these attributes of every object
            raise AttributeError(name)
        raise RuntimeError(
            "this parameter was not injected: pass it as an argument when you call the task as a function, or call "
            "task.arun(...), which injects it"
        )

    def __repr__(self) -> str:
        return "INJECTED"


INJECTED: Any = _Injected()
"""The default of an injected parameter, so that type checkers do not require it: `db: ... = INJECTED`."""


def named(function: Callable[..., Any]) -> str:
    """Return a function's name for messages."""
    return str(getattr(function, "__qualname__", None) or repr(function)).replace("<locals>.", "")


class Overrides:
    """Providers that replace others, in tests; `version` changes with each replacement."""

    def __init__(self) -> None:
        self.version: int = 0
        self._instead: dict[Callable[..., Any], Callable[..., Any]] = {}

    def chosen(self, provider: Callable[..., Any]) -> Callable[..., Any]:
        """Return the provider to use instead of this one, or this one."""
        return self._instead.get(provider, provider)

    @contextmanager
    def put(self, provider: Callable[..., Any], instead: Callable[..., Any]) -> Iterator[None]:
        """Use `instead` within the block, with the scope of the replaced provider."""
        if not callable(provider) or not callable(instead):
            raise ConfigError("a provider is overridden by another function")
        before = self._instead.get(provider)
        self._set(provider, instead)
        try:
            yield
        finally:
            self._set(provider, before)

    def _set(self, provider: Callable[..., Any], instead: Callable[..., Any] | None) -> None:
        if instead is None:
            self._instead.pop(provider, None)
        else:
            self._instead[provider] = instead
        self.version += 1
