"""Context managers of integrations surround each call of a worker, in its own thread or on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from lockwork.call_contexts import CallContexts
from lockwork.lifespans import Lifespans
from lockwork.worker.execution.threads import ThreadPool

Steps = list[tuple[str, str]]


@pytest.fixture
def steps() -> Steps:
    """The steps of a test, each with the name of its thread."""
    return []


@pytest.fixture
def contexts(steps: Steps) -> CallContexts:
    """Contexts that note when they are entered and left."""

    def note(step: str) -> None:
        steps.append((step, threading.current_thread().name))

    @contextlib.contextmanager
    def in_thread() -> Iterator[None]:
        note("enter")
        try:
            yield
        finally:
            note("leave")

    @contextlib.asynccontextmanager
    async def on_loop() -> AsyncIterator[None]:
        note("aenter")
        try:
            yield
        finally:
            note("aleave")

    made = CallContexts()
    made.add(in_thread, on_loop)
    return made


async def test_call_in_a_thread_is_surrounded_in_that_thread(steps: Steps, contexts: CallContexts) -> None:
    pool = ThreadPool(1, contexts)
    await pool.run(lambda: steps.append(("call", threading.current_thread().name)), (), {}, None)
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0, (), {}, None)
    pool.close()
    assert steps == [(step, "lockwork-job_0") for step in ("enter", "call", "leave", "enter", "leave")]


async def test_context_of_a_thread_sees_the_error_of_the_call_and_cannot_suppress_it() -> None:
    seen: list[str] = []

    @contextlib.contextmanager
    def in_thread() -> Iterator[None]:
        try:
            yield
        except (ZeroDivisionError, StopIteration) as error:
            seen.append(type(error).__name__)

    contexts = CallContexts()
    contexts.add(in_thread, contextlib.nullcontext)
    pool = ThreadPool(1, contexts)
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0, (), {}, None)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await pool.run(lambda: next(iter(())), (), {}, None)
    pool.close()
    assert seen == ["ZeroDivisionError", "StopIteration"]


async def test_coroutine_is_surrounded_on_the_loop_also_if_cancelled(steps: Steps, contexts: CallContexts) -> None:
    task = asyncio.create_task(contexts.acall(lambda: asyncio.sleep(60)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [step for step, _ in steps] == ["aenter", "aleave"]


async def test_setup_and_teardown_of_lifespans_are_surrounded_alone(steps: Steps, contexts: CallContexts) -> None:
    lifespans = Lifespans()

    @lifespans.add
    def in_thread() -> Iterator[None]:
        yield

    @lifespans.add
    async def on_loop() -> AsyncIterator[None]:
        yield

    async with lifespans.around(contexts):
        assert [step for step, _ in steps] == ["enter", "leave", "aenter", "aleave"]
    assert [step for step, _ in steps[4:]] == ["aenter", "aleave", "enter", "leave"]
    assert {name.split("_")[0] for step, name in steps if not step.startswith("a")} == {"lockwork-lifespan"}
