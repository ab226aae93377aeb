"""What the server has been asked to do so far."""

from __future__ import annotations

import redis


def script_calls(admin: redis.Redis) -> int:
    """How many calls of scripts it has had."""
    return int(admin.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])
