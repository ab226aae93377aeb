"""What users write: parameters that are injected, and providers that replace others in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NoReturn

from lockwork.errors import ConfigError

Scope = Literal["job", "worker"]


class Depends:
    """Marks an injected parameter: for `db: Annotated[Db, Depends(get_db)]`, `get_db` provides the value.

    A provider is a function, `async def` or `def`, a generator of either kind, whose part after its one `yield` cleans
    up, or a class. Its own parameters are injected, too. Scope "job" provides for each attempt anew; "worker" once per
    worker process, from its start to its end.
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
    """The default of an injected parameter, for type checkers and for calls that forget to give it."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # what inspect, copy and their like ask every object for
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
    """A function's name for messages."""
    return str(getattr(function, "__qualname__", None) or repr(function)).replace("<locals>.", "")


class Overrides:
    """Providers that replace others, in tests; `version` changes with each replacement."""

    def __init__(self) -> None:
        self.version: int = 0
        self._instead: dict[Callable[..., Any], Callable[..., Any]] = {}

    def chosen(self, provider: Callable[..., Any]) -> Callable[..., Any]:
        """The provider to use for this one."""
        return self._instead.get(provider, provider)

    @contextmanager
    def put(self, provider: Callable[..., Any], instead: Callable[..., Any]) -> Iterator[None]:
        """Use `instead` within the block; it has the scope of the one that it replaces."""
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
