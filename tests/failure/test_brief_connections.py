"""Connections that break right after they open: no caller hangs, and no reply goes to another call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lockwork import Lockwork
from lockwork.runtime.async_connection import Mux


async def test_connection_that_breaks_before_use_mixes_up_no_replies(
    url: str, monkeypatch: pytest.MonkeyPatch, alw: Lockwork
) -> None:
    """A call on the broken connection received no reply, and took the next call's reply on the next connection."""
    opened: Callable[[Mux, asyncio.Task[None]], None] = Mux._opened
    broken: list[Mux] = []

    def breaks(mux: Mux, opening: asyncio.Task[None]) -> None:
        # callers that wait for the connection are notified only later
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
