"""Messages between a worker process and its runners: MessagePack frames with a length prefix."""

from __future__ import annotations

import asyncio
import socket
import struct

import msgspec

from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.worker.ipc.messages import AwaitedResult
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
    """The runner can take a job; sent once at its start, and after each job."""


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The runner has started the job: if the runner dies from now on, the job may be the cause."""


class Overran(msgspec.Struct, frozen=True, tag=True):
    """The job ignores its time-out."""


class RunnerWaits(msgspec.Struct, frozen=True, tag=True):
    """The results that the job awaits now."""

    waits: list[AwaitedResult]


class RunnerEnded(msgspec.Struct, frozen=True, tag=True):
    """The job has ended, with this outcome."""

    outcome: Outcome


_settings_decoder: msgspec.msgpack.Decoder[ProcessSettings] = msgspec.msgpack.Decoder(ProcessSettings)
_message_decoder: msgspec.msgpack.Decoder[RunnerJob | Stop] = msgspec.msgpack.Decoder(RunnerJob | Stop)
Note = Overran | RunnerWaits
"""Notes of a runner about its running job."""
Answer = Free | Begun | Note | RunnerEnded
"""Messages of a runner."""
_answer_decoder: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def packed(message: ProcessSettings | RunnerJob | Stop | Answer) -> bytes:
    """Encode a message as a frame."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


def read_settings(connection: socket.socket) -> ProcessSettings | None:
    """Read the first message of the worker process, its settings; None if it is gone."""
    body = _body(connection)
    return None if body is None else _settings_decoder.decode(body)


def read_message(connection: socket.socket) -> RunnerJob | Stop | None:
    """Read a message of the worker process, on a thread that may block; None if it is gone."""
    body = _body(connection)
    return None if body is None else _message_decoder.decode(body)


async def read_answer(reader: asyncio.StreamReader) -> Answer | None:
    """Read a message of the runner; None if it is gone or sent invalid data."""
    try:
        head = await reader.readexactly(_LENGTH.size)
        body = await reader.readexactly(_LENGTH.unpack(head)[0])
        return _answer_decoder.decode(body)
    except (asyncio.IncompleteReadError, OSError, msgspec.DecodeError):
        return None


def _body(connection: socket.socket) -> bytes | None:
    head = _exactly(connection, _LENGTH.size)
    return None if head is None else _exactly(connection, _LENGTH.unpack(head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    content = bytearray()
    while len(content) < size:
        try:
            part = connection.recv(min(size - len(content), 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        content += part
    return bytes(content)
