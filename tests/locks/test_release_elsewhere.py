"""Release outside of the body: the server keeps no lock that its holder counts as lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NoReturn

import pytest

from locks.kinds import HANDLES, taken
from lockwork import LockLost, Lockwork
from lockwork.errors import ServerUnavailable
from lockwork.locks.grant import LockHold
from lockwork.locks.handle import Handle
from lockwork.protocol.scripts import script
from processes import until
from proxy import Proxy, proxied


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with proxied(url) as made:
        yield made


@pytest.mark.parametrize("kind", ["lock", "semaphore", "rwlock"])
def test_by_the_engine(lw: Lockwork, kind: str) -> None:
    grant = HANDLES[kind](lw, "x").acquire()
    assert grant._hold.lease is not None
    lease = grant._hold.lease
    lw.runtime.engine.give_back(lease)
    until(lambda: not taken(lw, kind, "x"), "it is free", 5)
    with suppress(LockLost):
        grant.release()


@pytest.mark.parametrize("kind", ["lock", "semaphore", "rwlock", "multilock"])
async def test_lease_extended_only_on_the_server_is_released_after_cancellation(
    lw: Lockwork, proxy: Proxy, kind: str
) -> None:
    """The reply to an extension was lost, so the holder counts on the old end, and the server on the new one."""
    async with Lockwork(proxy.url, patience=1) as app:
        made: dict[str, Callable[[], Handle[Any]]] = {
            "lock": lambda: app.lock("x", lease=3),
            "semaphore": lambda: app.semaphore("x", permits=1, lease=3),
            "rwlock": lambda: app.rwlock("x", lease=3).write(),
            "multilock": lambda: app.multilock("x", "x+", lease=3),
        }
        with pytest.raises(LockLost):
            async with made[kind]() as grant:
                await grant.aextend(3)  # the server has the script
                renew = {"semaphore": "permits/renew", "rwlock": "permits/renew"}.get(kind, "locks/renew")
                proxy.lose(script(renew).sha, "reply")
                extending = asyncio.create_task(grant.aextend("1h"))
                while not proxy.lost:
                    await asyncio.sleep(0)
                proxy.refuse(True)
                with pytest.raises(ServerUnavailable):
                    await extending
                proxy.refuse(False)
                assert await asyncio.to_thread(taken, lw, kind, "x")
                await asyncio.sleep(30)
        await asyncio.to_thread(until, lambda: not taken(lw, kind, "x"), "it is free", 5)


class _Released(LockHold):
    """Lets another thread release the hold right after the first read of its lease."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name == "lease":
            self.__class__ = LockHold  # type: ignore[assignment]
            with ThreadPoolExecutor(1) as pool:
                pool.submit(self.release).result()
        return found


def test_release_by_another_thread_while_an_interrupted_acquire_is_undone(
    lw: Lockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clean-up iterates over all grants of the process."""

    def interrupted(_lease: object) -> NoReturn:
        raise KeyboardInterrupt

    grant = lw.lock("other").acquire()
    monkeypatch.setattr(lw.runtime.engine, "keep", interrupted)
    grant._hold.__class__ = _Released
    with pytest.raises(KeyboardInterrupt):
        lw.lock("x").acquire()
    assert grant.lost, "the other thread has released it"
    assert not lw.lock("x").locked()
    assert not list(lw.runtime.live)
