"""The handshake without redis-py: it works, and fails, as the one of redis-py does."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest
import redis
from redis.connection import parse_url

import ports
from lockwork import Lockwork
from lockwork.errors import LockworkError, ServerRefused, ServerUnavailable
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.handshake import PlainAsyncConnection, PlainConnection, is_plain
from lockwork.runtime.sync_pool import _IDLE, WirePool


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("redis://h", True),
        ("redis://user:p%40ss@h:7000/3", True),
        ("unix:///tmp/s.sock?db=2", True),
        ("rediss://h", False),
        ("redis://h?client_name=mine", False),
        ("redis://h?socket_read_size=4096", False),
    ],
)
def test_options_and_tls_need_redis_py(url: str, plain: bool) -> None:
    endpoint = Endpoint.from_url(url)
    assert isinstance(endpoint.connection(), PlainConnection) is plain
    assert isinstance(endpoint.async_connection(), PlainAsyncConnection) is plain


@pytest.mark.parametrize(
    "url",
    ["redis://u:p%2Fw@host:1/2", "redis://:p@host", "redis://[::1]:7000", "unix:///a%20b", "redis://", "redis://H/0"],
)
def test_url_is_read_as_redis_py_reads_it(url: str) -> None:
    theirs = {name: value for name, value in parse_url(url).items() if value}  # type: ignore[no-untyped-call]
    theirs.pop("connection_class", None)
    options = Endpoint.from_url(url).options
    assert {name: options.get(name) for name in theirs} == theirs
    assert not {"username", "password", "host", "port", "path", "db"} & (options.keys() - theirs.keys())


def test_values_that_are_no_text_need_redis_py() -> None:
    assert is_plain("redis", {"host": "h", "password": "p"})
    assert not is_plain("redis", {"host": "h", "password": b"p"})
    assert not is_plain("redis", {"host": "h", "credential_provider": object()})


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_error_of_the_server_is_the_one_of_redis_py(url: str, admin: redis.Redis, asynchronous: bool) -> None:
    if not url.startswith("unix://"):
        pytest.skip("the URL is of another kind")
    admin.acl_setuser("guest", enabled=True, passwords=["+right"], keys=["*"], channels=["*"], commands=["+@all"])
    path = url.removeprefix("unix://").partition("?")[0]
    try:
        with Lockwork(f"unix://guest:wrong@{path}", patience=1) as lw:
            with pytest.raises(ServerRefused, match="refuses our user or password"):
                if asynchronous:
                    await lw.queue().astatus()
                else:
                    await asyncio.to_thread(lw.queue().status)
            await lw.aclose()
        with Lockwork(f"unix://{path}?db=12345", patience=1) as lw:
            with pytest.raises(ServerRefused, match="no such database"):
                if asynchronous:
                    await lw.queue().astatus()
                else:
                    await asyncio.to_thread(lw.queue().status)
            await lw.aclose()
        with Lockwork(f"unix://guest:right@{path}") as lw:
            assert (await lw.queue().astatus()).ready == 0
            await lw.aclose()
    finally:
        admin.acl_deluser("guest")


def test_refused_connection_is_server_unavailable() -> None:
    with Lockwork(f"redis://127.0.0.1:{ports.free_port()}", patience=0.3) as lw:
        with pytest.raises(ServerUnavailable, match="Connection refused"):
            lw.queue().status()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("text", "error", "shown"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ServerRefused, "refuses the connection"),
        (b"-ERR max number of clients reached\r\n", ServerUnavailable, "max number of clients"),
    ],
)
async def test_server_that_answers_and_closes(
    text: bytes, error: type[LockworkError], shown: str, asynchronous: bool
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(text)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with Lockwork(f"redis://user:secret@127.0.0.1:{port}/1", patience=1) as lw:
            with pytest.raises(error, match=shown):
                if asynchronous:
                    await lw.queue().astatus()
                else:
                    await asyncio.to_thread(lw.queue().status)
            await lw.aclose()


def test_pool_closes_connections_that_no_thread_needs(url: str) -> None:
    pool = WirePool(Endpoint.from_url(url), allow_eviction=False)
    try:
        wires = [pool._take(5.0) for _ in range(3)]
        for wire in wires:
            pool._put_back(wire)
        assert all(wire.connected for wire in wires)
        wires[0].used -= _IDLE + 1
        pool._put_back(pool._take(5.0))
        assert [wire.connected for wire in wires] == [False, True, True]
    finally:
        pool.close()


def test_app_that_nobody_closes_leaves_no_open_socket(own_url: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Lockwork(own_url).queue().status()
        gc.collect()
    assert not [str(warning.message) for warning in caught]
