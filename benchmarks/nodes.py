"""A Cluster of real server processes on loopback, without replicas."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import redis

from lockwork.runtime.embedded.folder import program

SLOTS = 16_384


@contextmanager
def cluster(shards: int) -> Iterator[list[redis.Redis]]:
    """Start so many nodes that share the slots evenly; a client of each. They end with the block."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lockwork-bench-")))
        nodes = [_node(stack, folder / f"node{number}") for number in range(shards)]
        for number, node in enumerate(nodes):
            first, last = SLOTS * number // shards, SLOTS * (number + 1) // shards - 1
            node.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
            node.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            bus = node.config_get("cluster-port")["cluster-port"]
            nodes[0].execute_command("CLUSTER", "MEET", "127.0.0.1", port(node), bus)
        while not all(_ready(node, shards) for node in nodes):
            time.sleep(0.05)
        yield nodes


def url_of(nodes: list[redis.Redis]) -> str:
    """The URL of a Cluster."""
    return f"redis+cluster://{','.join(f'127.0.0.1:{port(node)}' for node in nodes)}"


def port(node: redis.Redis) -> int:
    """Where a node listens."""
    return int(node.connection_pool.connection_kwargs["port"])


def cpu(node: redis.Redis) -> float:
    """Seconds of processor time that a node's main thread has used."""
    found = node.info("cpu")
    return float(found["used_cpu_user_main_thread"]) + float(found["used_cpu_sys_main_thread"])


def _node(stack: ExitStack, folder: Path) -> Any:
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        at, bus = first.getsockname()[1], second.getsockname()[1]
    options = {"port": at, "cluster-port": bus, "bind": "127.0.0.1", "dir": folder}
    options |= {"cluster-enabled": "yes", "save": "", "appendonly": "no"}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    process = subprocess.Popen([program(), *words], stdout=subprocess.DEVNULL)
    stack.callback(process.wait, 10)
    stack.callback(process.kill)
    node = stack.enter_context(redis.Redis(port=at))
    while True:
        with suppress(redis.ConnectionError):
            node.ping()
            return node
        time.sleep(0.02)


def _ready(node: Any, shards: int) -> bool:
    found = node.execute_command("CLUSTER INFO")
    return bool(found["cluster_state"] == "ok" and int(found["cluster_known_nodes"]) == shards)
