"""Codecs with fixed keys, and what is stored on a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from clients import client_of
from lockwork import Lockwork
from lockwork.contrib.cryptography import AesGcmCodec
from lockwork.protocol.keys import QueueKeys
from lockwork.testing import worker
from lockwork.types import HmacCodec

KEYS = QueueKeys("lw", "default")
OLD, NEW = {"old": b"o" * 32}, {"new": b"n" * 32}
SECRET = "card-4111"


def aes(**keys: bytes) -> AesGcmCodec:
    return AesGcmCodec(keys or OLD)


def hmac(**keys: bytes) -> HmacCodec:
    return HmacCodec(keys or OLD)


@contextmanager
def served(lw: Lockwork, *queues: str) -> Iterator[Lockwork]:
    """Run a worker of the app, and close both at the end."""
    with lw, worker(lw, queues=queues or ["default"], grace=0):
        yield lw


def record(url: str, id: str, keys: QueueKeys = KEYS) -> bytes:
    with client_of(url) as client:
        stored = client.hget(keys.jobs, id)
    assert isinstance(stored, bytes)
    return stored


def everything(url: str) -> bytes:
    """Return all that the server of a test stores: names, fields and values."""
    stored: list[bytes] = []
    with client_of(url) as client:
        for key in client.scan_iter():
            stored += [key, *_content(client, key)]
    return b"\n".join(stored)


def _content(client: redis.Redis, key: bytes) -> list[bytes]:
    reader: Any = client
    kind = reader.type(key)
    if kind == b"hash":
        return [part for pair in reader.hgetall(key).items() for part in pair]
    if kind == b"list":
        return list(reader.lrange(key, 0, -1))
    if kind == b"zset":
        return list(reader.zrange(key, 0, -1))
    if kind == b"set":
        return list(reader.smembers(key))
    value = reader.get(key)
    return [value] if isinstance(value, bytes) else []
