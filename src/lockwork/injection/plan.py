"""The dependencies of a task function, resolved at registration: without cycles, each after its own dependencies."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

from lockwork.errors import ConfigError
from lockwork.injection.depends import Depends, Overrides, Scope, named
from lockwork.injection.reading import check_provider, dependencies

Kind = Literal["value", "awaited", "generator", "async generator"]


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider function with its scope; providers with the same function and scope are equal."""

    call: Callable[..., Any]
    scope: Scope
    kind: Kind = field(compare=False)
    needs: dict[str, Provider] = field(compare=False)

    @property
    def is_async(self) -> bool:
        """True if the provider needs an event loop."""
        return self.kind in ("awaited", "async generator")


class InjectionPlan(Struct, frozen=True):
    """The providers for one call, each after its own dependencies."""

    parameters: dict[str, Provider]
    worker: tuple[Provider, ...]
    """Once per worker process."""
    outer: tuple[Provider, ...]
    """Per job, on the event loop. For a `def` task: only async providers, and the dependencies of these."""
    inner: tuple[Provider, ...]
    """Per job, in the thread of a `def` task."""


class Injection:
    """The injected parameters of one function; raises ConfigError if they cannot be injected."""

    def __init__(
        self,
        function: Callable[..., Any],
        overrides: Overrides,
        *,
        is_async: bool,
        marks: dict[str, Depends] | None = None,
    ) -> None:
        self._function = function
        self._overrides = overrides
        self._is_async = is_async
        self._marks = dependencies(function) if marks is None else marks
        self.names: frozenset[str] = frozenset(self._marks)
        self._positional = _positional(function)
        self._version = overrides.version
        self._plan = self._make()

    def without(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Injection:
        """Return the injection for a call that passes some of the injected parameters itself."""
        arguments = inspect.signature(self._function).bind_partial(*args, **kwargs).arguments
        marks = {name: mark for name, mark in self._marks.items() if name not in arguments}
        return Injection(self._function, self._overrides, is_async=self._is_async, marks=marks)

    def plan(self) -> InjectionPlan:
        """Return the plan with the current overrides."""
        if self._version != self._overrides.version:
            self._plan, self._version = self._make(), self._overrides.version
        return self._plan

    def filled(
        self, args: list[Any], kwargs: dict[str, Any], values: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the job's arguments with the injected values in their places."""
        arguments, remaining, rest = iter(args), len(args), dict(values)
        filled: list[Any] = []
        for name in self._positional:
            if name in rest:
                filled.append(rest.pop(name))
            elif remaining:
                filled.append(next(arguments))
                remaining -= 1
            else:
                break
        filled.extend(arguments)
        return filled, {**kwargs, **rest}

    def _make(self) -> InjectionPlan:
        graph = _Graph(self._overrides)
        parameters = {name: graph.add(mark, ()) for name, mark in self._marks.items()}
        job = [provider for provider in graph.order if provider.scope == "job"]
        outer = set(job) if self._is_async else _above(provider for provider in job if provider.is_async)
        return InjectionPlan(
            parameters,
            tuple(provider for provider in graph.order if provider.scope == "worker"),
            tuple(provider for provider in job if provider in outer),
            tuple(provider for provider in job if provider not in outer),
        )


class _Graph:
    def __init__(self, overrides: Overrides) -> None:
        self._overrides = overrides
        self._known: dict[tuple[Callable[..., Any], Scope], Provider] = {}
        self.order: list[Provider] = []

    def add(self, mark: Depends, path: tuple[Callable[..., Any], ...]) -> Provider:
        call = self._overrides.chosen(mark.provider)
        if call in path:
            around = " needs ".join(named(one) for one in (*path[path.index(call) :], call))
            raise ConfigError(f"these dependencies form a cycle: {around}")
        existing_provider = self._known.get((call, mark.scope))
        if existing_provider is not None:
            return existing_provider
        marks = dependencies(call)
        check_provider(call, marks)
        needs: dict[str, Provider] = {}
        for name, needed in marks.items():
            if mark.scope == "worker" and needed.scope == "job":
                raise ConfigError(
                    f"{named(call)} lives as long as the worker, so it cannot depend on {named(needed.provider)}, "
                    "which lives as long as a job: set scope='worker' for both"
                )
            needs[name] = self.add(needed, (*path, call))
        provider = self._known[call, mark.scope] = Provider(call, mark.scope, _kind(call), needs)
        self.order.append(provider)
        return provider


def _above(wanted: Any) -> set[Provider]:
    """Return the providers with their direct and indirect dependencies."""
    providers: set[Provider] = set()
    remaining = list(wanted)
    while remaining:
        provider = remaining.pop()
        if provider not in providers:
            providers.add(provider)
            remaining += provider.needs.values()
    return providers


def _kind(call: Callable[..., Any]) -> Kind:
    while isinstance(call, functools.partial):
        call = call.func
    candidates = [call]
    if not inspect.isroutine(call) and not inspect.isclass(call):
        candidates.append(type(call).__call__)
    for candidate in candidates:
        if inspect.isasyncgenfunction(candidate):
            return "async generator"
        if inspect.isgeneratorfunction(candidate):
            return "generator"
        if inspect.iscoroutinefunction(candidate):
            return "awaited"
    wrapped = getattr(call, "__wrapped__", None)
    if wrapped is not None and (inspect.isgeneratorfunction(wrapped) or inspect.isasyncgenfunction(wrapped)):
        raise ConfigError(
            f"{named(call)} makes a context manager: give Depends the bare generator, without @contextmanager"
        )
    return "value"


def _positional(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    except (TypeError, ValueError):
        return []
