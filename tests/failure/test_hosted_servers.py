"""Hosted servers, without administration commands."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import pytest
import redis

from lockwork import Lockwork
from processes import until, worker
from sentinels import start_server

WITHHELD = ("ACL", "BGREWRITEAOF", "BGSAVE", "CLUSTER", "CONFIG", "DEBUG", "FAILOVER", "MIGRATE", "MODULE", "MONITOR",
            "REPLICAOF", "SAVE", "SHUTDOWN", "SLAVEOF", "SLOWLOG", "SYNC")  # fmt: skip
"""Commands that some providers disallow; each provider still allows CLIENT and INFO."""


@pytest.mark.parametrize("more", [(), ("CLIENT", "INFO", "ROLE")], ids=["usual", "also CLIENT, INFO and ROLE"])
def test_locks_and_jobs_without_commands_of_administrators(
    tmp_path: Path, apps: Path, more: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    rules = tmp_path / "withheld.conf"
    rules.write_text("".join(f'rename-command {name} ""\n' for name in (*WITHHELD, *more)))
    with contextlib.ExitStack() as stack, caplog.at_level(logging.WARNING):
        node = start_server(stack, tmp_path / "server", {"include": str(rules), "save": ""})
        with pytest.raises(redis.ResponseError, match="unknown command"):
            node.client.config_get("maxmemory")
        url = f"redis://127.0.0.1:{node.port}"
        with Lockwork(url, lock_lease=1) as app, worker("good:lw", url=url, folder=apps) as process:

            @app.task(retries=0)
            async def gated(started: str, gate: str) -> str: ...  # type: ignore[empty-body]

            started, gate = tmp_path / "started", tmp_path / "gate"
            gate.touch()
            assert gated.enqueue(str(started), str(gate)).result(30) == "done"
            with app.lock("x") as grant:
                assert app.locks().locks[0].name == "x"
                deadline = node.client.hget("lw:{lock:x}", "d")
                until(lambda: node.client.hget("lw:{lock:x}", "d") != deadline, "its lease is renewed")
                assert not grant.lost
            assert app.queue().status().succeeded == 1
            assert process.process.poll() is None
    assert ("this user may not run" in caplog.text) == bool(more)
