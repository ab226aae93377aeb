"""Event loops of several threads share one app, and each sees to the closed ones when it comes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lockwork import Lockwork
from lockwork.runtime.runtime import Runtime


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:
        yield lw.runtime


class _Closed:
    """A closed loop; on each check of it, another thread has already removed it."""

    def __init__(self, loops: dict[Any, Any], driver: object) -> None:
        self._loops = loops
        self._driver = driver

    def is_closed(self) -> bool:
        self._loops.pop(self, None)
        self._loops[asyncio.new_event_loop] = self._driver  # and has begun with one more
        return True


class _Driver:
    abandoned = 0

    def abandon(self) -> None:
        self.abandoned += 1


def test_concurrent_removal_during_iteration_abandons_nothing(runtime: Runtime) -> None:
    driver = _Driver()
    loops: dict[Any, Any] = runtime._loops
    loops[_Closed(loops, driver)] = driver
    try:
        runtime._forget_closed()
        assert driver.abandoned == 0, "the other thread abandons it"
    finally:
        loops.clear()


def test_closed_loops_are_forgotten_by_the_next(url: str) -> None:
    with Lockwork(url) as lw:

        async def ask() -> None:
            await lw.aqueues()

        for _ in range(3):
            thread = threading.Thread(target=asyncio.run, args=[ask()])
            thread.start()
            thread.join()
        assert len(lw.runtime._loops) == 1
