"""Mutants of ten priorities."""

from __future__ import annotations

from simulator.server import Build

_RESERVE, _GROUPS, _NUMBERED = "queue/reserve", "queue/parts/groups", "queue/parts/numbered"
_RANGES = "level < 2 then lease_levels(level == 0 and 3 or 7, level == 0 and 6 or 9) end"
_COUNT = "redis.call('HINCRBY', groups, 'n ' .. group, 1)\n      ids[#ids + 1] = id\n      if"
_FLAG = "redis.call('HSET', stats, 'numbered', 1)"
MUTANTS = (
    Build(
        "numbers below normal come before it",
        ((_RESERVE, _RANGES, "level < 2 then lease_levels(level == 0 and 7 or 3, level == 0 and 9 or 6) end"),),
    ),
    Build("numbers come last", ((_RESERVE, _RANGES, "level == 2 then lease_levels(3, 9) end"),)),
    Build("one level a fetch", ((_NUMBERED, "    low = low + 1\n", "    break\n"),)),
    Build("a number's jobs count for no group", ((_GROUPS, _COUNT, "ids[#ids + 1] = id\n      if"),)),
    Build("a round begins with the first group", ((_NUMBERED, "redis.call('HSET', groups, 'c ' .. level, turn)", ""),)),
    Build(
        "a group at its limit takes a turn", ((_NUMBERED, "if passed_over > 1000 then turn = last end", "turn = last"),)
    ),
    Build("a round has an end", ((_NUMBERED, "if not entry and last then", "if false then"),)),
    Build("one group at its limit ends the round", ((_NUMBERED, "or refused == group then", "or refused then"),)),
    Build("limits of a group with numbers are lost", ((_GROUPS, "queue.numbered and 9 or 2", "2"),)),
    Build("nobody looks for numbers", ((_GROUPS, _FLAG, ""),)),
    Build(
        "numbers are forgotten while they wait",
        ((_RESERVE, "(heavy or queue.numbered) and redis.call('HLEN', jobs) == 0", "(heavy or queue.numbered)"),),
    ),
    Build(
        "a number is normal",
        (("queue/parts/push", " or string.find(record, '^[3-9],[%d/]+,[^;]*;')", ""),),
    ),
    Build("a job of a group is not of its level", ((_GROUPS, "'^(%d),[%d/]+,([^,;]*)", "'^([012]),[%d/]+,([^,;]*)"),)),
)
