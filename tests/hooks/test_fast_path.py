"""The fast path: a plain task without hooks or options is called directly; other tasks take longer steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from lockwork import Depends, JobContext, Lockwork
from lockwork.jobs.current import QueueContext, SlotContext
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.worker.execution.contexts import ExecutionContext
from lockwork.worker.execution.executor import Executor
from lockwork.worker.execution.job_log import JobLog
from lockwork.worker.execution.outcomes import Outcomes
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.execution.threads import ThreadPool


async def plain(number: int) -> int:
    return number + 1


async def limited(number: int) -> int:
    return number + 1


def in_a_thread(number: int) -> int:
    return number + 1


async def injected(number: int, one: Annotated[int, Depends(lambda: 1)] = 0) -> int:
    return number + one


async def together(numbers: list[int]) -> list[int]:
    return [number + 1 for number in numbers]


class Settled:
    """Keeps the outcomes instead of sending them."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    async def confirmed(self, id: str) -> bool:
        return False


Steps = list[str]


async def ways(lw: Lockwork, function: Callable[..., Any], patch: pytest.MonkeyPatch, **options: Any) -> Steps:
    """Run one job of the function like a worker; return the longer steps that it took."""
    steps: Steps = []

    def noted(owner: type[Executor | Outcomes], name: str) -> None:
        step = getattr(owner, name)

        def through(self: Executor | Outcomes, *args: Any) -> Any:
            steps.append(name)
            return step(self, *args)

        patch.setattr(owner, name, through)

    noted(Executor, "_value")
    noted(Executor, "_forgive")
    noted(Outcomes, "raised")
    own = {name: options.pop(name) for name in ("timeout",) if name in options and options.get("single")}
    options.pop("single", None)
    task = lw.task(**options)(function)
    job = (task.options(**own) if own else task).call(4)
    settled: Any = Settled()
    queue_context = QueueContext("default", QueueKeys("lw", "default"), lw.runtime, "h/1/a", 1000)
    threads, caller = ThreadPool(1), _Caller()
    context = ExecutionContext(lw.registry, lw.config, threads, caller, WorkerSlots(1), JobLog())  # type: ignore[arg-type]
    executor = Executor(queue_context, context, settled)
    slot = SlotContext()
    slot.task = asyncio.current_task()
    await executor.run(Leased("id", b"1 x", job.record, 1, 7), slot)
    threads.close()
    assert [(outcome.kind, outcome.value) for outcome in settled.outcomes] == [("s", b"5")]
    assert slot.job is None
    return steps


class _Caller:
    async def call(self, function: Any, injection: Any, args: Any, kwargs: Any, **rest: Any) -> Any:
        return await function(*args, 1)


@pytest.fixture
def lw() -> Lockwork:
    return Lockwork("redis://127.0.0.1:1", patience=0)


async def test_plain_task_takes_the_fast_path(lw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await ways(lw, plain, monkeypatch) == []


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (limited, {"timeout": 5}),
        (limited, {"timeout": 5, "single": True}),
        (in_a_thread, {}),
        (injected, {}),
        (together, {"batch": 2}),
    ],
)
async def test_other_tasks_take_the_slow_path(
    lw: Lockwork, monkeypatch: pytest.MonkeyPatch, function: Any, options: Any
) -> None:
    assert await ways(lw, function, monkeypatch, **options) == ["_value"]


async def test_hooked_jobs_take_the_slow_path(lw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    lw.hooks.success(lambda event: None)
    assert await ways(lw, plain, monkeypatch) == ["_value"]


async def test_tasks_with_middlewares_take_the_slow_path(lw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    @lw.middleware
    def around(job: JobContext) -> Iterator[None]:
        yield

    assert await ways(lw, plain, monkeypatch) == ["_value"]
