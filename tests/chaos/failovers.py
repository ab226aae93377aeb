"""Servers with repeated failovers, by crash or by command, and moving slots in a Cluster."""

from __future__ import annotations

import contextlib
import random
import re
import signal
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

import redis

from clusters import Cluster
from processes import until
from sentinels import NAME, Node, Watched

_SWITCH = re.compile(r"^\d+:X (\d+) (\w+) (\d+) ([\d:.]+) # \+switch-master", re.MULTILINE)
PATIENCE = 180.0
"""Seconds for an election, and until a replica follows."""


@dataclass(frozen=True)
class Failover:
    """The period of a primary's replacement, in Unix time. Only an orderly failover loses no write."""

    since: float
    until: float
    orderly: bool


class Servers(Protocol):
    """Servers that can fail over, and perhaps move slots."""

    def crash(self) -> bool:
        """Kill a primary whose replica is complete, wait for its successor, and restart it; return as `by_hand`."""

    def by_hand(self) -> bool:
        """Let a replica take over; return True if this cannot lose writes."""

    def move(self) -> bool:
        """Move a slot; return False without slots."""

    def elections(self) -> list[Failover]:
        """Return all failovers, including the ones caused by a busy machine."""


@dataclass
class Sentinels:
    """A primary that is watched by Sentinels."""

    watched: Watched

    def crash(self) -> bool:
        primary = self._followed()
        primary.signal(signal.SIGKILL)
        primary.process.wait()
        until(lambda: self.watched.primary() is not primary, "an election", PATIENCE)
        until(lambda: self.watched.primary().client.role()[0] == "master", "another primary", PATIENCE)
        primary.restart()
        self._obey(primary)
        return False

    def by_hand(self) -> bool:
        primary = self._followed()

        def begun() -> bool:
            with contextlib.suppress(redis.ResponseError):  # refused soon after a failover
                self.watched.sentinels[0].client.execute_command("SENTINEL", "FAILOVER", NAME)
                return True
            return False

        until(begun, "a Sentinel agrees", PATIENCE)
        until(lambda: self.watched.primary() is not primary, "an election", PATIENCE)
        self._followed()  # the old primary accepts writes until the Sentinels demote it, ten seconds later
        return False

    def move(self) -> bool:
        return False

    def elections(self) -> list[Failover]:
        found = []
        log = Path(self.watched.sentinels[0].command[1]).parent / "log"
        for day, month, year, clock in _SWITCH.findall(log.read_text()):
            at = datetime.strptime(f"{day} {month} {year} {clock}", "%d %b %Y %H:%M:%S.%f").timestamp()  # noqa: DTZ007 - the server's zone is ours
            found.append(Failover(at - 2, at + 5, orderly=False))
        return found

    def _obey(self, old: Node) -> None:
        """Make the old primary a replica of the new one; Sentinels need ten seconds for this."""
        new = self.watched.primary()
        until(lambda: new.client.role()[0] == "master", "the new primary serves", PATIENCE)
        old.client.replicaof("127.0.0.1", new.port)
        self._followed()

    def _followed(self) -> Node:
        def found() -> Node | None:
            primary = self.watched.primary()
            return primary if _followed(primary) else None

        primary = until(found, "a replica follows", PATIENCE)
        assert primary is not None
        return primary


@dataclass
class Shards:
    """A Cluster; `slots` are the moving slots."""

    cluster: Cluster
    slots: list[int]
    draw: random.Random

    def crash(self) -> bool:
        primary = self._followed()
        primary.signal(signal.SIGKILL)
        primary.process.wait()
        until(lambda: len(self.cluster.primaries()) == 3 and self._serves(), "an election", PATIENCE)
        primary.restart()
        self._settled()
        return False

    def by_hand(self) -> bool:
        primary = self._followed()
        (place, *_), *_ = primary.client.role()[2]
        port = primary.client.role()[2][0][1]
        assert place
        replica = next(node for node in self.cluster.nodes if node.port == int(port))
        replica.client.execute_command("CLUSTER", "FAILOVER")
        until(lambda: replica.client.role()[0] == "master", "it has taken over", PATIENCE)
        self._settled()
        return True

    def move(self) -> bool:
        slot = self.draw.choice(self.slots)
        home = self.cluster.owner(slot)
        to = self.draw.choice([node for node in self.cluster.primaries() if node is not home])
        self.cluster.move(slot, to)
        # the server deletes the keys at the source without waiting for the replica
        until(lambda: to.client.wait(1, 1000) >= 1, "its replica has them", PATIENCE)
        return True

    def elections(self) -> list[Failover]:
        return []

    def _followed(self) -> Node:
        self._settled()
        return self.draw.choice(self.cluster.primaries())

    def _settled(self) -> None:
        until(lambda: self._serves() and all(map(_followed, self.cluster.primaries())), "all is well", PATIENCE)

    def _serves(self) -> bool:
        nodes = self.cluster.primaries()
        return len(nodes) == 3 and all(
            node.client.execute_command("CLUSTER INFO")["cluster_state"] == "ok" for node in nodes
        )


def _followed(primary: Node) -> bool:
    with contextlib.suppress(redis.RedisError):
        return bool(primary.client.role()[0] == "master" and primary.client.wait(1, 100) >= 1)
    return False
