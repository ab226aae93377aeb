"""Mutants of a queue with workers of two versions."""

from __future__ import annotations

from simulator.server import Build

MUTANTS = (
    Build(
        "a job given back for another worker counts",
        (("queue/settle", "park(id, value)", "park(id, value)\n      redis.call('HSET', tries, id, tried)"),),
    ),
    Build("a job that ends stays parked", (("queue/settle", "unpark(known_here, true)", ""),)),
    Build("a due job stays parked", (("queue/reserve", "unpark(ripe)", ""),)),
    Build(
        "a claimed job stays scheduled", (("queue/parts/take_parked", "redis.call('ZREM', due, unpack(taken))", ""),)
    ),
    Build(
        "a claimed job stays parked", (("queue/parts/take_parked", "redis.call('ZREM', parked, unpack(entries))", ""),)
    ),
    Build("a claim takes nothing", (("queue/reserve", "if tasks then take_parked(tasks, room, fence) end", ""),)),
    Build(
        "a claim takes jobs of any task",
        (
            (
                "queue/parts/take_parked",
                "if versions[task] and not string.find(tried, versions[task]",
                "if not string.find(tried, versions[task] or '-'",
            ),
        ),
    ),
    Build("jobs of dead workers stay parked", (("queue/recover", "if over then unpark({id}, true) end", ""),)),
    Build("a moved job stays parked", (("queue/parts/leave", "unpark({id}, true)", ""),)),
)
