"""The settler without a worker: a server that refuses one outcome, refuses a whole queue, or is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import Lockwork
from lockwork.errors import LockworkError, ServerRefused, ServerUnavailable
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Outcome
from lockwork.worker.execution import settler as settling
from lockwork.worker.execution.settler import Settler

Rule = Callable[[list[str]], Exception | None]


class Server:
    """Accepts outcomes that `rule` does not refuse."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.calls: list[list[str]] = []
        self.settled: list[str] = []

    def run(self, protocol: Any) -> Any:
        args = protocol.send(None).args
        ids = [str(id) for id in args[2::5]]
        protocol.close()
        return self._answer(ids)

    async def _answer(self, ids: list[str]) -> list[bool]:
        await asyncio.sleep(0)
        self.calls.append(ids)
        error = self.rule(ids)
        if error is not None:
            raise error
        self.settled += filter(None, ids)
        return [bool(id) for id in ids]


def make(server: Server) -> Settler:
    driver: Any = server
    return Settler(driver, QueueKeys("lw", "default"), "host/1/a", 1000)


def add(settler: Settler, *ids: str) -> None:
    for id in ids:
        settler.add(Outcome(id, b"1 1 x", "s", b"null"))


async def test_refused_outcome_does_not_block_others(caplog: pytest.LogCaptureFixture) -> None:
    def rule(ids: list[str]) -> LockworkError | None:
        return ServerRefused("the server refused jobs_settle: bad") if "bad" in ids else None

    server = Server(rule)
    settler = make(server)
    add(settler, "a", "bad", "b")
    async with asyncio.timeout(5):
        await settler.drained()
    assert server.settled == ["a", "b"]
    add(settler, "c")
    async with asyncio.timeout(5):
        await settler.drained()
    assert server.settled == ["a", "b", "c"]
    assert "job bad: the server refuses its outcome but accepts others" in caplog.text
    assert "job a:" not in caplog.text
    assert "job :" not in caplog.text
    assert not settler.failing


@pytest.mark.parametrize(
    "error", [ServerRefused("a Lockwork key contains data of another program"), ServerUnavailable("away")]
)
async def test_settler_waits_for_queue_that_refuses_writes(
    error: LockworkError, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All outcomes are settled after the repair, and the log does not fill up meanwhile."""
    monkeypatch.setattr(settling, "backoff", lambda _failures: 0.0)
    trouble = [error]
    server = Server(lambda _ids: trouble[0] if trouble else None)
    settler = make(server)
    add(settler, "a", "b")
    async with asyncio.timeout(5):
        while len(server.calls) < 50:
            await asyncio.sleep(0)
    assert (settler.failing, settler.busy) == (True, True)
    assert server.settled == []
    assert caplog.text.count("2 outcomes wait to be settled") == 1
    trouble.clear()
    async with asyncio.timeout(5):
        await settler.drained()
    assert server.settled == ["a", "b"]
    assert (settler.failing, settler.busy) == (False, False)
    assert "given up" not in caplog.text


async def test_outcomes_are_kept_when_logging_fails(failing_log: None) -> None:
    troubles = [ServerUnavailable("away")]
    server = Server(lambda _ids: troubles.pop() if troubles else None)
    settler = make(server)
    add(settler, "a", "b")
    async with asyncio.timeout(5):
        await settler.drained()
    assert server.settled == ["a", "b"]


async def test_settled_outcomes_are_not_resent_with_unsettled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcomes need more than one call; the server becomes unavailable between two of them."""
    monkeypatch.setattr(settling, "backoff", lambda _failures: 0.0)
    troubles: list[LockworkError] = [ServerUnavailable("away")] * 2

    def rule(ids: list[str]) -> LockworkError | None:
        return troubles.pop() if "600" in ids and troubles else None

    server = Server(rule)
    settler = make(server)
    add(settler, *map(str, range(1200)))
    async with asyncio.timeout(5):
        await settler.drained()
    assert server.settled == [str(number) for number in range(1200)]
    assert [len(call) for call in server.calls] == [500, 500, 500, 500, 200]


async def test_settling_an_unknown_job_writes_no_keys(alw: Lockwork, admin: redis.Redis) -> None:
    """The call is refused if the queue is wrong."""
    keys = QueueKeys("lw", "default")
    driver = await alw.runtime.driver()
    asking = [settling._NOBODYS]
    assert await driver.run(leases.settle(keys, "host/1/a", asking, 1000)) == [False]
    assert keys_but_indexes(admin) == []
    for key in (keys.long_results, keys.results[1], keys.dead):
        admin.set(key, "text")
        with pytest.raises(ServerRefused, match="data of another program"):
            await driver.run(leases.settle(keys, "host/1/a", asking, 1000))
        admin.delete(key)
