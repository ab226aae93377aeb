"""Requests that arrive after their caller gave up and undid their effects (L6, L10)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest

from lockwork import Lockwork
from lockwork.errors import NotReplicated
from lockwork.protocol.scripts import script
from lockwork.runtime import sync_driver
from lockwork.runtime.sync_connection import Wire
from proxy import Proxy, proxied


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with proxied(url) as made:
        yield made


def interrupted(_: float) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_while_a_call_is_to_be_sent_again(lw: Lockwork, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lockwork(proxy.url) as app:
        with app.lock("warm"):  # the server has the scripts
            pass
        proxy.lose(script("locks/acquire").sha, "late")
        monkeypatch.setattr(sync_driver, "time", SimpleNamespace(sleep=interrupted))
        with pytest.raises(KeyboardInterrupt):
            app.lock("x", lease="1h").acquire()
        monkeypatch.undo()
        proxy.deliver_late()
        assert lw.lock("x").inspect().owner is None


def test_ctrl_c_while_the_answer_is_awaited(lw: Lockwork, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lockwork(proxy.url) as app:
        with app.lock("warm"):  # the server has the scripts
            pass
        proxy.lose(script("locks/acquire").sha, "late")
        real = Wire.receive

        def receive(_: Wire) -> object:
            monkeypatch.setattr(Wire, "receive", real)
            while not proxy.lost:  # the waiter has left
                pass
            raise KeyboardInterrupt

        monkeypatch.setattr(Wire, "receive", receive)
        with pytest.raises(KeyboardInterrupt):
            app.lock("x", lease="1h").acquire()
        proxy.deliver_late()
        assert lw.lock("x").inspect().owner is None


@pytest.mark.parametrize("replicas", [0, 1])
async def test_late_request_of_a_cancelled_task_grants_nothing(alw: Lockwork, proxy: Proxy, replicas: int) -> None:
    """A lock that waits for replicas has its own connection, which must be cleaned up too."""
    async with Lockwork(proxy.url) as app:
        lock = app.lock("x", lease="1h", replicas=replicas)
        async with app.lock("warm"):  # the servers have the scripts, and the connections are open
            with suppress(NotReplicated):
                async with lock:
                    pass
        proxy.lose(script("locks/acquire").sha, "late")
        task = asyncio.create_task(lock.aacquire())
        while not proxy.lost:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(proxy.deliver_late)
        assert await alw.lock("x").aowner() is None
