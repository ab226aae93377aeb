"""`patience` is how long a call may take when the server hangs, whatever it hangs in."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import redis

from hanging import black_hole, frozen, hanging_resolver
from lockwork import Lockwork, ServerUnavailable
from lockwork.runtime.embedded import Embedded
from proxy import Proxy

PATIENCE = 1.5
SLACK = 1.0
"""Seconds; what was wrong took at least 5."""


@contextlib.contextmanager
def out_of_patience() -> Iterator[None]:
    began = time.monotonic()
    with pytest.raises(ServerUnavailable):
        yield
    took = time.monotonic() - began
    assert PATIENCE / 3 < took < PATIENCE + SLACK


def test_the_first_call_to_a_frozen_server(spoiled: Embedded) -> None:
    with Lockwork(spoiled.url, patience=PATIENCE) as app, frozen(spoiled.pid):
        with out_of_patience():
            app.lock("x").acquire()


def test_a_later_call_to_a_frozen_server(spoiled: Embedded) -> None:
    with Lockwork(spoiled.url, patience=PATIENCE) as app:
        app.lock("x").inspect()
        with frozen(spoiled.pid):
            for _ in range(2):
                with out_of_patience():
                    app.lock("x").acquire()


async def test_the_first_call_of_a_task_to_a_frozen_server(spoiled: Embedded) -> None:
    async with Lockwork(spoiled.url, patience=PATIENCE) as app:
        with frozen(spoiled.pid), out_of_patience():
            await app.lock("x").aacquire()


async def test_a_later_call_of_a_task_to_a_frozen_server(spoiled: Embedded) -> None:
    async with Lockwork(spoiled.url, patience=PATIENCE) as app:
        await app.lock("x").ainspect()
        with frozen(spoiled.pid):
            for _ in range(2):
                with out_of_patience():
                    await app.lock("x").aacquire()


async def test_a_call_of_a_task_that_comes_while_others_wait(spoiled: Embedded) -> None:
    """The connection is given up because of the first, and the last starts over with less patience than that took."""
    async with Lockwork(spoiled.url, patience=PATIENCE) as app:
        await app.lock("x").ainspect()
        with frozen(spoiled.pid):
            first = asyncio.create_task(app.lock("x").ainspect())
            await asyncio.sleep(PATIENCE * 2 / 3)
            with out_of_patience():
                await app.lock("x").ainspect()
            with pytest.raises(ServerUnavailable):
                await first


def test_a_call_that_waits_for_replicas(spoiled: Embedded) -> None:
    with Lockwork(spoiled.url, patience=PATIENCE) as app, frozen(spoiled.pid):
        began = time.monotonic()
        with pytest.raises(ServerUnavailable):
            app.lock("x", replicas=1).acquire()
        assert time.monotonic() - began < PATIENCE + 1 + SLACK  # a second for the replicas


@pytest.mark.parametrize("way", ["thread", "task"])
async def test_a_port_that_accepts_no_connection(way: str) -> None:
    with black_hole() as port:
        async with Lockwork(f"redis://127.0.0.1:{port}", patience=PATIENCE) as app:
            with out_of_patience():
                await (asyncio.to_thread(app.lock("x").acquire) if way == "thread" else app.lock("x").aacquire())


@pytest.mark.parametrize("way", ["thread", "task"])
async def test_a_name_that_takes_for_ever_to_resolve(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    with hanging_resolver(monkeypatch, "in.limbo") as hangs:
        hangs.set()
        async with Lockwork(proxy.url.replace("127.0.0.1", "in.limbo"), patience=PATIENCE) as app:
            with out_of_patience():
                await (asyncio.to_thread(app.lock("x").acquire) if way == "thread" else app.lock("x").aacquire())


@pytest.mark.parametrize("way", ["thread", "task"])
async def test_a_handshake_of_several_steps(spoiled: Embedded, spoil: redis.Redis, way: str) -> None:
    spoil.config_set("requirepass", "secret")
    url = spoiled.url.replace("://", "://:secret@", 1)
    async with Lockwork(url, patience=PATIENCE) as app:
        with frozen(spoiled.pid), out_of_patience():
            await (asyncio.to_thread(app.lock("x").acquire) if way == "thread" else app.lock("x").aacquire())


@pytest.mark.parametrize("way", ["thread", "task"])
@pytest.mark.parametrize("scheme", ["redis", "rediss"])
async def test_a_port_that_never_completes_the_handshake(scheme: str, way: str) -> None:
    """The connection is made, and neither HELLO nor TLS is answered."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"{scheme}://user:secret@127.0.0.1:{mute.getsockname()[1]}"
        async with Lockwork(url, patience=PATIENCE) as app:
            with out_of_patience():
                await (asyncio.to_thread(app.lock("x").acquire) if way == "thread" else app.lock("x").aacquire())
        # a dial that is still under way would meet a closed port in the middle of TLS, where CPython leaves a socket
        for thread in threading.enumerate():
            if thread.name == "lockwork-dial":
                await asyncio.to_thread(thread.join, 10)


def test_a_healthy_server_gets_a_second(spoiled: Embedded) -> None:
    with Lockwork(spoiled.url, patience=0) as app, frozen(spoiled.pid):
        began = time.monotonic()
        with pytest.raises(ServerUnavailable):
            app.lock("x").acquire()
        assert 0.5 < time.monotonic() - began < 1 + SLACK
