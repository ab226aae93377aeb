"""`patience` limits the duration of a call to a hanging server, in each phase of the call."""

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
"""Seconds; the bug took at least 5."""


@contextlib.contextmanager
def out_of_patience() -> Iterator[None]:
    began = time.monotonic()
    with pytest.raises(ServerUnavailable):
        yield
    took = time.monotonic() - began
    assert PATIENCE / 3 < took < PATIENCE + SLACK


def test_first_call_to_a_frozen_server_gives_up(spoiled: Embedded) -> None:
    with Lockwork(spoiled.url, patience=PATIENCE) as app, frozen(spoiled.pid):
        with out_of_patience():
            app.lock("x").acquire()


def test_later_call_to_a_frozen_server_gives_up(spoiled: Embedded) -> None:
    with Lockwork(spoiled.url, patience=PATIENCE) as app:
        app.lock("x").inspect()
        with frozen(spoiled.pid):
            for _ in range(2):
                with out_of_patience():
                    app.lock("x").acquire()


async def test_first_async_call_to_a_frozen_server_gives_up(spoiled: Embedded) -> None:
    async with Lockwork(spoiled.url, patience=PATIENCE) as app:
        with frozen(spoiled.pid), out_of_patience():
            await app.lock("x").aacquire()


async def test_later_async_call_to_a_frozen_server_gives_up(spoiled: Embedded) -> None:
    async with Lockwork(spoiled.url, patience=PATIENCE) as app:
        await app.lock("x").ainspect()
        with frozen(spoiled.pid):
            for _ in range(2):
                with out_of_patience():
                    await app.lock("x").aacquire()


async def test_async_call_behind_other_waiting_calls_gives_up(spoiled: Embedded) -> None:
    """The first call's time-out closes the connection; the last call retries with its remaining patience."""
    async with Lockwork(spoiled.url, patience=PATIENCE) as app:
        await app.lock("x").ainspect()
        with frozen(spoiled.pid):
            first = asyncio.create_task(app.lock("x").ainspect())
            await asyncio.sleep(PATIENCE * 2 / 3)
            with out_of_patience():
                await app.lock("x").ainspect()
            with pytest.raises(ServerUnavailable):
                await first


def test_call_that_waits_for_replicas_gives_up(spoiled: Embedded) -> None:
    with Lockwork(spoiled.url, patience=PATIENCE) as app, frozen(spoiled.pid):
        began = time.monotonic()
        with pytest.raises(ServerUnavailable):
            app.lock("x", replicas=1).acquire()
        assert time.monotonic() - began < PATIENCE + 1 + SLACK  # a second of waiting for the replicas


@pytest.mark.parametrize("way", ["thread", "task"])
async def test_port_that_accepts_no_connection_is_given_up(way: str) -> None:
    with black_hole() as port:
        async with Lockwork(f"redis://127.0.0.1:{port}", patience=PATIENCE) as app:
            with out_of_patience():
                await (asyncio.to_thread(app.lock("x").acquire) if way == "thread" else app.lock("x").aacquire())


@pytest.mark.parametrize("way", ["thread", "task"])
async def test_name_that_never_resolves_is_given_up(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    with hanging_resolver(monkeypatch, "in.limbo") as hangs:
        hangs.set()
        async with Lockwork(proxy.url.replace("127.0.0.1", "in.limbo"), patience=PATIENCE) as app:
            with out_of_patience():
                await (asyncio.to_thread(app.lock("x").acquire) if way == "thread" else app.lock("x").aacquire())


@pytest.mark.parametrize("way", ["thread", "task"])
async def test_handshake_of_several_steps_is_given_up(spoiled: Embedded, spoil: redis.Redis, way: str) -> None:
    spoil.config_set("requirepass", "secret")
    url = spoiled.url.replace("://", "://:secret@", 1)
    async with Lockwork(url, patience=PATIENCE) as app:
        with frozen(spoiled.pid), out_of_patience():
            await (asyncio.to_thread(app.lock("x").acquire) if way == "thread" else app.lock("x").aacquire())


@pytest.mark.parametrize("way", ["thread", "task"])
@pytest.mark.parametrize("scheme", ["redis", "rediss"])
async def test_port_that_never_completes_the_handshake_is_given_up(scheme: str, way: str) -> None:
    """The connection opens, but neither HELLO nor TLS gets a reply."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"{scheme}://user:secret@127.0.0.1:{mute.getsockname()[1]}"
        async with Lockwork(url, patience=PATIENCE) as app:
            with out_of_patience():
                await (asyncio.to_thread(app.lock("x").acquire) if way == "thread" else app.lock("x").aacquire())
        # a dial that is still under way would meet a closed port in the middle of TLS, where CPython leaves a socket
        for thread in threading.enumerate():
            if thread.name == "lockwork-dial":
                await asyncio.to_thread(thread.join, 10)


def test_healthy_server_gets_a_second_without_patience(spoiled: Embedded) -> None:
    with Lockwork(spoiled.url, patience=0) as app, frozen(spoiled.pid):
        began = time.monotonic()
        with pytest.raises(ServerUnavailable):
            app.lock("x").acquire()
        assert 0.5 < time.monotonic() - began < 1 + SLACK
