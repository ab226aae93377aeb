"""A call without a wait reaches the server even if its idle connection was broken."""

from __future__ import annotations

import pytest
import redis

from lockwork import Lockwork
from lockwork.errors import ResultTimeout


def test_multilock_without_wait_reconnects(lw: Lockwork, admin: redis.Redis) -> None:
    both = lw.multilock("a", "b", wait=0)
    with both:
        pass
    admin.client_kill_filter(_type="normal", skipme=True)
    with both as grant:
        assert not grant.lost


def test_job_result_without_wait_reconnects(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.task
    def nothing() -> None: ...

    job = nothing.enqueue()
    admin.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(ResultTimeout):
        job.result(0)


def test_flow_result_without_wait_reconnects(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.task
    def nothing() -> None: ...

    run = lw.chain(nothing.call()).enqueue()
    admin.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(ResultTimeout):
        run.result(0)


async def test_in_a_task(alw: Lockwork, admin: redis.Redis) -> None:
    @alw.task
    async def nothing() -> None: ...

    job = await nothing.aenqueue()
    admin.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(ResultTimeout):
        await job.aresult(0)
