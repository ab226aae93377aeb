"""Counts of ended jobs, stored as workers store them."""

from __future__ import annotations

from typing import Any

import msgspec

from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.metrics.metrics import Times

_LETTERS = {"done": "s", "retried": "r", "dead": "d"}


def ended(admin: Any, lw: Lockwork, queue: str, task: str, minute: int, *, wait: float = 0.0, **counts: int) -> None:
    """Count jobs that ended in a minute: `done`, `retried`, `dead`; each waited for `wait` seconds."""
    keys, times = QueueKeys(lw.config.prefix, queue), Times()
    times.add(int(wait * 1e6), sum(counts.values()))
    admin.hset(keys.counted_tasks, task, minute // 60)
    for number, hashes, length in ((minute, keys.minutes, 60), (minute // 60, keys.hours, 168)):
        key = hashes[number // length % 2]
        for name, count in counts.items():
            admin.hincrby(key, f"{number}{_LETTERS[name]}{task}", count)
        if wait:
            packed = msgspec.msgpack.encode([times.packed(), Times().packed()])
            admin.hset(key, f"{number}h{task}", packed)
