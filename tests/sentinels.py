"""A primary with replicas, and Sentinels that watch them: real processes on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import redis

from lockwork.runtime.embedded import folder as embedded_folder
from ports import free_port
from processes import until

NAME = "shop"


@dataclass
class Node:
    """One server process."""

    port: int
    process: subprocess.Popen[bytes]
    command: list[str]
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        self.client = redis.Redis(port=self.port, decode_responses=True)

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.process.pid, number)

    def cut_off(self) -> None:
        """Hide the server from the Sentinels and ignore their commands; other clients are still served."""
        self.client.execute_command("ACL", "SETUSER", "default", "-ping", "-slaveof", "-replicaof")

    def restart(self) -> None:
        """Restart the server after it was killed."""
        self.process.wait()
        self.process = _start(self.command)
        until(self.answers, f"a server at port {self.port}")

    def answers(self) -> bool:
        """Return True if the server replies."""
        with contextlib.suppress(redis.ConnectionError):
            return bool(self.client.ping())
        return False

    def end(self) -> None:
        """Kill the server in any state."""
        self.client.close()
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


@dataclass
class Watched:
    """A primary, its replicas and Sentinels. The first server was the primary at the start."""

    servers: list[Node]
    sentinels: list[Node]

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)

    @property
    def url(self) -> str:
        return f"redis+sentinel://{self.hosts}/{NAME}/0"

    def primary(self) -> Node:
        """Return the server that the Sentinels name as primary."""
        for sentinel in self.sentinels:
            with contextlib.suppress(redis.ConnectionError):
                _, port = sentinel.client.sentinel_get_master_addr_by_name(NAME)
                return next(each for each in self.servers if each.port == port)
        raise AssertionError("no Sentinel answers")

    def elected(self, before: Node) -> Node:
        """Wait until another server is the primary."""

        def another() -> bool:
            now = self.primary()
            return bool(now is not before and now.client.role()[0] == "master")

        until(another, "another primary", 30)
        return self.primary()


@contextlib.contextmanager
def watched(folder: Path, *, replicas: int = 1, sentinels: int = 3, silence: int = 500) -> Iterator[Watched]:
    """Start all nodes until the end of the block.

    A primary that is silent for `silence` milliseconds counts as down.
    """
    with contextlib.ExitStack() as stack:
        servers: list[Node] = []
        for number in range(replicas + 1):
            options = {"save": "", "repl-diskless-sync-delay": "0", "appendonly": "no"}
            if servers:
                options["replicaof"] = f"127.0.0.1 {servers[0].port}"
            servers.append(start_server(stack, folder / f"server{number}", options))
        primary = servers[0]
        until(lambda: primary.client.info("replication")["connected_slaves"] == replicas, "the replicas follow")
        until(lambda: all(each.client.info("replication")["role"] == "slave" for each in servers[1:]), "all replicas")
        watching = [
            _sentinel(stack, folder / f"sentinel{number}", primary.port, silence) for number in range(sentinels)
        ]
        for each in watching:
            until(partial(_knows, each, replicas, sentinels - 1), "the Sentinels know each other")
        yield Watched(servers, watching)


def _knows(sentinel: Node, replicas: int, others: int) -> bool:
    facts = sentinel.client.sentinel_master(NAME)
    return bool(facts["num-slaves"] == replicas and facts["num-other-sentinels"] == others)


def start_server(stack: contextlib.ExitStack, folder: Path, options: dict[str, str]) -> Node:
    """Start a server at a free port until the stack is closed."""
    folder.mkdir(parents=True)
    port = free_port()
    options = {"port": str(port), "bind": "127.0.0.1", "dir": str(folder), "logfile": str(folder / "log"), **options}
    words = [word for name, value in options.items() for word in (f"--{name}", *(value.split() or [""]))]
    return _running(stack, port, [str(embedded_folder.program()), *words])


def _sentinel(stack: contextlib.ExitStack, folder: Path, primary: int, silence: int) -> Node:
    folder.mkdir(parents=True)
    port = free_port()
    config = folder / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\nlogfile {folder}/log\n"
        f"sentinel monitor {NAME} 127.0.0.1 {primary} 2\n"
        f"sentinel down-after-milliseconds {NAME} {silence}\nsentinel failover-timeout {NAME} 3000\n"
    )
    return _running(stack, port, [str(embedded_folder.program()), str(config), "--sentinel"])


def _running(stack: contextlib.ExitStack, port: int, command: list[str]) -> Node:
    node = Node(port, _start(command), command)
    stack.callback(node.end)
    until(node.answers, f"a server at port {port}")
    return node


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env={**os.environ, "LC_ALL": "C"}, stdout=subprocess.DEVNULL)
