"""A connection that breaks in the moment in which it was made: nobody waits in vain, and no answer is mixed up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lockwork import Lockwork
from lockwork.runtime.async_connection import Mux


async def test_one_that_breaks_before_it_is_used(url: str, monkeypatch: pytest.MonkeyPatch, alw: Lockwork) -> None:
    """A call that was put on it got no answer, and took that of the next one on the connection after it."""
    opened: Callable[[Mux, asyncio.Task[None]], None] = Mux._opened
    broken: list[Mux] = []

    def breaks(mux: Mux, opening: asyncio.Task[None]) -> None:
        # whoever waits for the connection has not been told yet
        opened(mux, opening)
        if len(broken) < 3:
            broken.append(mux)
            mux._drop(mux._answers, "the other side ended it")

    monkeypatch.setattr(Mux, "_opened", breaks)
    async with Lockwork(url) as app:

        async def take(name: str) -> None:
            async with app.lock(name) as grant:
                assert (await app.lock(name).ainspect()).fence == grant.fence

        await asyncio.gather(*(take(f"lock{number}") for number in range(20)))
    assert len(broken) == 3
    for number in range(20):
        assert not await alw.lock(f"lock{number}").alocked()
