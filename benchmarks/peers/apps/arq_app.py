"""Jobs of arq. Those of a killed worker run again after their time-out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from arq.worker import func

from benchmarks.peers.jobs import ASYNC


async def noop(_context: dict[Any, Any], due: float) -> None:
    """Do nothing."""
    await ASYNC["noop"](due)


async def io(_context: dict[Any, Any], due: float) -> None:
    """Wait."""
    await ASYNC["io"](due)


async def cpu(_context: dict[Any, Any], due: float) -> None:
    """Compute."""
    await ASYNC["cpu"](due)


class Settings:
    """Settings of the worker."""

    redis_settings = RedisSettings.from_dsn(os.environ["PEER_REDIS"])
    functions = (func(noop, keep_result=0), func(io, keep_result=0), func(cpu, keep_result=0))
    max_jobs = 100


_pool: list[ArqRedis] = []


async def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    if not _pool:
        _pool.append(await create_pool(Settings.redis_settings))
    for due in times:
        await _pool[0].enqueue_job(kind, due)
