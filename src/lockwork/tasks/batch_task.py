"""The handle of a batch task: its jobs have one item each, its function takes a list of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from lockwork.config import Config
from lockwork.errors import ConfigError
from lockwork.tasks.batch import Batching, of_one
from lockwork.tasks.context import AppContext
from lockwork.tasks.enqueue_batcher import EnqueueBatcher
from lockwork.tasks.options import CallSettings, TaskOptions
from lockwork.tasks.task import Task

T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C")


class BatchTask(Task[[T], R, C]):
    """A registered function of a list: `enqueue(item)` makes one job, and a worker calls it with the items of many."""

    def __init__(
        self,
        batcher: EnqueueBatcher,
        config: Config,
        name: str,
        function: Callable[[list[T]], C],
        options: TaskOptions,
        context: AppContext,
        batching: Batching,
    ) -> None:
        self.batching: Batching | None = batching
        super().__init__(batcher, config, name, function, options, context)  # type: ignore[arg-type]  # see _wire

    def __call__(self, items: list[T]) -> C:  # type: ignore[override]  # as it was defined
        return self.function(items)  # type: ignore[arg-type]  # see _wire

    def options(self, **changes: Unpack[CallSettings]) -> BatchTask[T, R, C]:
        """As of any task, without `timeout`: the time limit of a call cannot be that of one of its jobs."""
        if "timeout" in changes:
            raise ConfigError(f"batch task {self.name!r}: one call runs many jobs, so the task alone has a timeout")
        changed = super().options(**changes)
        assert isinstance(changed, BatchTask)
        return changed

    async def arun(self, items: list[T]) -> Any:  # type: ignore[override]  # as it was defined
        """Run the function here with its dependencies, as Task.arun; returns what it returns."""
        return await super().arun(items)  # type: ignore[arg-type]  # see _wire

    def _wire(self) -> tuple[Callable[..., Any], frozenset[str]]:
        """For its jobs, and so for the types, the function takes one item; called, it takes a list."""
        return of_one(self.function, self.injection.names), frozenset()
