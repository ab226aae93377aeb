"""The heartbeat's own sign of life, without a server."""

from __future__ import annotations

from typing import Any, NoReturn, cast

from lockwork.errors import ServerUnavailable
from lockwork.protocol.dead_moves import Bounds
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.runtime import Runtime
from lockwork.worker.bounds import Keeper
from lockwork.worker.heartbeat import Heartbeat
from processes import until


class _Away:
    """A server that is away, and notes when the heartbeat last turned, as seen at each try."""

    def __init__(self) -> None:
        self.heartbeat: Heartbeat | None = None
        self.seen: list[float] = []

    def run(self, protocol: Any) -> NoReturn:
        protocol.close()
        assert self.heartbeat is not None
        self.seen.append(self.heartbeat.turned)
        raise ServerUnavailable("no server")


def test_it_turns_with_each_queue() -> None:
    """Each try takes half a second when the server is away: with many queues, /livez would have the worker killed."""
    away = _Away()
    runtime = cast("Runtime", away)
    queues = {name: QueueKeys("lw", name) for name in "abcdef"}
    nobody: list[Any] = []
    away.heartbeat = heartbeat = Heartbeat(
        runtime, queues, 1000.0, 1000, nobody.append, nobody.append, keeper=Keeper(runtime, Bounds(1000, 10))
    )
    heartbeat.start()
    try:
        until(lambda: len(away.seen) >= len(queues), "it has asked for all of them once")
    finally:
        heartbeat.stop()
    first_round = away.seen[: len(queues)]
    assert len(set(first_round)) == len(queues)
