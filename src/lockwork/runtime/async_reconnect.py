"""Connects on an event loop: after the handshake, the server is checked."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, NamedTuple

from lockwork.runtime.endpoint import ASK, COMMANDS, Endpoint, Identity, check, end
from lockwork.runtime.replies import Late, foreseen, raise_connecting
from lockwork.runtime.resp import NOTHING, new_reader

_READ_SIZE = 1 << 16


class Opened(NamedTuple):
    """A new connection, whose transport gets the owner's protocol; `era`: see Endpoint."""

    writer: asyncio.StreamWriter
    identity: Identity | None
    era: int


async def opened_within(seconds: float, endpoint: Endpoint, abandoned: list[Identity], allow_eviction: bool) -> Opened:
    """Connect and check the server; raises Retry, also after `seconds`, or a LockworkError.

    Ends the connections in `abandoned` on the server, and removes them from the list.
    """
    connection: Any = None
    try:
        async with asyncio.timeout(seconds):
            await endpoint.alocate()
            connection = endpoint.async_connection()
            await _handshake(connection, endpoint.shown)
            reader, writer = connection._reader, connection._writer  # noqa: SLF001 - no public name for them
            replies = await _ask(reader, writer, ASK, len(COMMANDS))
            identity = check(replies, endpoint, allow_eviction=allow_eviction)
            while abandoned:
                if identity is not None and identity.run == abandoned[-1].run:
                    await _ask(reader, writer, end(abandoned[-1]), 1)
                abandoned.pop()
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # redis-py's connect may swallow the cancellation (asyncio.wait_for of Python 3.11)
            raise asyncio.CancelledError
        if reader.at_eof():
            raise ConnectionResetError("closed by the server")
    except TimeoutError:
        await _disconnect(connection)
        raise Late(f"no connection to {endpoint.shown}", seconds) from None
    except foreseen() as error:
        await _disconnect(connection)
        raise_connecting(error, endpoint.shown)
    except BaseException:
        await _disconnect(connection)
        raise
    connection._reader = connection._writer = None  # noqa: SLF001 - from here on it is its owner's alone
    return Opened(writer, identity, endpoint.reached(None if identity is None else identity.run))


async def _handshake(connection: Any, where: str) -> None:
    try:
        await connection.connect()
    except Exception as error:  # noqa: BLE001 - the app's own source of passwords may raise anything
        raise_connecting(error, where)


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, packed: bytes, count: int) -> list[Any]:
    parser = new_reader()
    writer.write(packed)
    replies: list[Any] = []
    while True:
        while (reply := parser.gets()) is not NOTHING:
            replies.append(reply)
        if len(replies) == count:
            return replies
        data = await reader.read(_READ_SIZE)
        if not data:
            raise ConnectionResetError("closed by the server")
        parser.feed(data)


async def _disconnect(connection: Any) -> None:
    if connection is None:
        return
    with contextlib.suppress(*foreseen(), asyncio.CancelledError):
        await connection.disconnect(nowait=True)
