"""Putting other providers in place of the app's own, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lockwork.errors import ConfigError


class Overrides:
    """Which provider stands in for which; `version` changes whenever that does."""

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
