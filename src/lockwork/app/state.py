"""The state that the groups of methods of `Lockwork` share: settings, connections and registered tasks."""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from lockwork import introspection
from lockwork.config import Config, Settings
from lockwork.contrib import sqlalchemy as _sqlalchemy  # noqa: F401 - registers its adapter for on_commit
from lockwork.durations import in_milliseconds
from lockwork.lifespans import Lifespans
from lockwork.runtime.connect import opener
from lockwork.runtime.runtime import Runtime
from lockwork.schedules.plans import SchedulePlans
from lockwork.tasks.registry import Registry


class AppState:
    """One app and its connections: from its settings until it is closed."""

    def __init__(self, url: str | None = None, *, client: object = None, **settings: Unpack[Settings]) -> None:
        self.config: Config = Config.read(settings)
        self.made_in: str = introspection.calling_module("lockwork.")
        self.registry: Registry = Registry()
        self.plans: SchedulePlans = SchedulePlans(self.config.partitions)
        self.lifespans: Lifespans = Lifespans()
        self.runtime: Runtime = Runtime(
            opener(url, client),
            prefix=self.config.prefix,
            patience=self.config.patience,
            allow_eviction=self.config.allow_eviction,
            window_ms=in_milliseconds(self.config.result_ttl),
        )

    def __repr__(self) -> str:
        return f"<Lockwork on {opened}>" if (opened := self.runtime.opened) else "<Lockwork, not open>"

    def close(self) -> None:
        """Close connections and threads; locks still held end with their lease. A later call opens them again."""
        self.runtime.close()

    async def aclose(self) -> None:
        """Async version of `close`; each event loop that used this object should call it before it ends."""
        await self.runtime.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
