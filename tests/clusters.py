"""A Cluster of real processes on loopback, whose primaries may have replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lockwork.protocol import slots
from processes import until
from sentinels import Node, start_server

_SLOTS = 16384


@dataclass
class Cluster:
    """A Cluster. `nodes`: the original primaries, then their replicas."""

    nodes: list[Node]

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in self.nodes[:3])}"

    def primaries(self) -> list[Node]:
        """Return the nodes that serve slots now."""
        return [node for node in self.nodes if node.process.poll() is None and node.client.role()[0] == "master"]

    def owner(self, slot: int) -> Node:
        """Return the node that serves a slot, according to most nodes."""
        for first, last, primary, *_ in self.primaries()[0].client.execute_command("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == primary[1])
        raise AssertionError(f"no node serves slot {slot}")

    def move(self, slot: int, to: Node) -> None:
        """Move a slot and its keys, like redis-cli does."""
        source = self.owner(slot)
        if source is to:
            return
        begin_move(source, to, slot)
        while keys := source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source.client.execute_command("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
        end_move(self, to, slot)


def begin_move(source: Node, to: Node, slot: int) -> None:
    """Mark the slot as migrating on the source and importing on the target."""
    to.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.client.execute_command("CLUSTER", "MYID"))
    source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", to.client.execute_command("CLUSTER", "MYID"))


def end_move(cluster: Cluster, to: Node, slot: int) -> None:
    """Announce the slot's new owner to all nodes."""
    target = to.client.execute_command("CLUSTER", "MYID")
    for node in (to, *(each for each in cluster.primaries() if each is not to)):
        node.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target)


def names_everywhere(cluster: Cluster, kind: str = "lock") -> list[str]:
    """Return the name of a lock or semaphore for each primary, in order."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < 3:
        number += 1
        found.setdefault(cluster.owner(slots.slot(f"{kind}:{number}")).port, str(number))
    return [found[node.port] for node in cluster.nodes[:3]]


def count_calls(cluster: Cluster, command: str) -> int:
    """Return the number of calls of a command on all nodes."""
    name = f"cmdstat_{command}"
    return sum(node.client.info("commandstats").get(name, {"calls": 0})["calls"] for node in cluster.nodes)


@contextlib.contextmanager
def clustered(
    folder: Path, *, shards: int = 3, replicas: int = 0, alone: int = 0, silence: int = 2000
) -> Iterator[Cluster]:
    """Start all nodes until the end of the block.

    A node that is silent for `silence` milliseconds counts as down. `alone`: start only this number of servers
    outside of a Cluster.
    """
    with contextlib.ExitStack() as stack:
        if alone:
            yield Cluster([start_server(stack, folder / f"server{number}", {"save": ""}) for number in range(alone)])
            return
        options = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(silence),
            "save": "",
            "appendonly": "no",
            "repl-diskless-sync-delay": "0",
        }
        nodes = [start_server(stack, folder / f"node{number}", options) for number in range(shards * (1 + replicas))]
        first = nodes[0]
        for number, node in enumerate(nodes[:shards]):
            start, end = _SLOTS * number // shards, _SLOTS * (number + 1) // shards - 1
            node.client.execute_command("CLUSTER", "ADDSLOTS", *range(start, end + 1))
            node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            first.client.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port)
        until(lambda: all(_knows(node, len(nodes)) for node in nodes), "the nodes know each other", 20)
        for number, node in enumerate(nodes[shards:]):
            primary = nodes[number % shards].client.execute_command("CLUSTER", "MYID")
            node.client.execute_command("CLUSTER", "REPLICATE", primary)
        until(lambda: all(_ready(node) for node in nodes), "the Cluster serves all slots", 20)
        yield Cluster(nodes)


def _knows(node: Node, count: int) -> bool:
    return int(node.client.execute_command("CLUSTER INFO")["cluster_known_nodes"]) == count


def _ready(node: Node) -> bool:
    facts = node.client.info("replication")
    if facts["role"] == "slave" and facts["master_link_status"] != "up":
        return False
    return bool(node.client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
