"""What the servers have been asked to do so far."""

from __future__ import annotations

import redis

from clients import servers_of


def command_calls(admin: redis.Redis, *commands: str) -> int:
    """How many calls of some commands they have had, all together."""
    stats = [server.info("commandstats") for server in servers_of(admin)]
    return sum(int(one.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for one in stats for name in commands)


def script_calls(admin: redis.Redis) -> int:
    """How many calls of scripts they have had."""
    return command_calls(admin, "evalsha")
