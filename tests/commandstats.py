"""Command statistics of the servers."""

from __future__ import annotations

import redis

from clients import servers_of


def command_calls(admin: redis.Redis, *commands: str) -> int:
    """Return the number of calls of some commands, on all servers together."""
    stats = [server.info("commandstats") for server in servers_of(admin)]
    return sum(int(one.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for one in stats for name in commands)


def script_calls(admin: redis.Redis) -> int:
    """Return the number of script calls."""
    return command_calls(admin, "evalsha")
