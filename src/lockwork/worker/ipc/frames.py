"""What a worker child and its runner processes tell each other: MessagePack in frames, each after its length."""

from __future__ import annotations

import asyncio
import socket
import struct

import msgspec

from lockwork.protocol.queues.leases import Leased, Outcome
from lockwork.worker.settings import ProcessSettings

_LENGTH = struct.Struct("!I")


class RunnerJob(msgspec.Struct, frozen=True, tag=True):
    """Run this job of the queue."""

    queue: str
    job: Leased


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Cancel this job, if it still runs."""

    id: str


class Free(msgspec.Struct, frozen=True, tag=True):
    """The runner can take a job; said once at its start, and after each job."""


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The runner has taken the job up: if it dies from now on, that may be the job's doing."""


class RunnerEnded(msgspec.Struct, frozen=True, tag=True):
    """The job has come to an end, and this is to become of it."""

    outcome: Outcome


_orders: msgspec.msgpack.Decoder[ProcessSettings] = msgspec.msgpack.Decoder(ProcessSettings)
_order: msgspec.msgpack.Decoder[RunnerJob | Stop] = msgspec.msgpack.Decoder(RunnerJob | Stop)
_answer: msgspec.msgpack.Decoder[Free | Begun | RunnerEnded] = msgspec.msgpack.Decoder(Free | Begun | RunnerEnded)


def packed(message: ProcessSettings | RunnerJob | Stop | Free | Begun | RunnerEnded) -> bytes:
    """A message as it is sent."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


def orders(connection: socket.socket) -> ProcessSettings | None:
    """Wait for what the child says first, its own orders; None: it is gone."""
    body = _body(connection)
    return None if body is None else _orders.decode(body)


def order(connection: socket.socket) -> RunnerJob | Stop | None:
    """Wait for what the child says, on a thread that may block; None: it is gone."""
    body = _body(connection)
    return None if body is None else _order.decode(body)


async def answer(reader: asyncio.StreamReader) -> Free | Begun | RunnerEnded | None:
    """Wait for what the runner says; None: it is gone, or talks nonsense."""
    try:
        head = await reader.readexactly(_LENGTH.size)
        body = await reader.readexactly(_LENGTH.unpack(head)[0])
        return _answer.decode(body)
    except (asyncio.IncompleteReadError, OSError, msgspec.DecodeError):
        return None


def _body(connection: socket.socket) -> bytes | None:
    head = _exactly(connection, _LENGTH.size)
    return None if head is None else _exactly(connection, _LENGTH.unpack(head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        try:
            part = connection.recv(min(size - len(found), 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        found += part
    return bytes(found)
