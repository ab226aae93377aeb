"""Mutants of scripts that return the jobs of a session, and of scripts that wake idle workers."""

from __future__ import annotations

from simulator.server import Build

NACK_MUTANTS = (
    Build(
        "returned jobs count",
        (("queue/recover", "and not died then return nil", "and false then return nil"),),
    ),
    Build("a stop counts no attempt", (("queue/recover", "attempts and not most and", "attempts and"),)),
    Build("returned jobs go last", (("queue/recover", "redis.call('LPUSH'", "redis.call('RPUSH'"),)),
    Build(
        "a kill of a stopping worker counts",
        (("queue/recover", "if stopping and not gone then died = false end", ""),),
    ),
    Build(
        "a beat forgets the stop",
        (("queue/heartbeat", "joins == 's' and deadline + STOPPING or deadline", "deadline"),),
    ),
    Build(
        "a job returned by its task counts",
        (("queue/settle", "again = again + 1\n    end", "redis.call('HSET', tries, id, tried)\n    end"),),
    ),
)
IDLE_MUTANTS = (
    Build("an idle worker wakes another", (("queue/forward_wakeup", "if since and since >= 0 and", "if false and"),)),
    Build("a worker that woke up forwards no wake-up", (("queue/forward_wakeup", " and not awake", ""),)),
    Build("dead workers are notified", (("queue/parts/wake", "count - received", "count - 1"),)),
    Build("many dead workers hide the live ones", (("queue/parts/wake", "unreachable < 500", "unreachable < 100"),)),
)
