"""How a parameter says that it is injected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NoReturn

from lockwork.errors import ConfigError

Scope = Literal["job", "worker"]


class Depends:
    """Marks a parameter: `db: Annotated[Db, Depends(get_db)]` is what `get_db` provides, and no argument of the job.

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
            "this parameter was not injected: a task that is called here as a function needs it as an argument, "
            "or call task.arun(...), which injects as a worker does"
        )

    def __repr__(self) -> str:
        return "INJECTED"


INJECTED: Any = _Injected()
"""The default to give an injected parameter, so that type checkers do not ask for it: `db: ... = INJECTED`."""


def named(function: Callable[..., Any]) -> str:
    """A function's name for messages."""
    return str(getattr(function, "__qualname__", None) or repr(function)).replace("<locals>.", "")
