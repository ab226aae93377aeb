"""Mutants of jobs with a key or a group."""

from __future__ import annotations

from simulator.server import Build

_TURN = "redis.call('RPUSH', round, group)"
_AGAIN = "then enter_round(level, group) end\n    end\n    tidy(group)"
_GIVES = "if key then left_key(key, id) end"
_BACK = "admit(id, record, nil, token)"
_FENCE = "string.match(token, ' (%d+)')"
_NUMBER = "string.match(entry, '\\n(%S+) ')"
FEW = ("queue/parts/groups", "passed_over > 1000", "passed_over > 0")
_GROUP = "left_group(group)\n    if key"
MUTANTS = (
    Build("a key is given away for good", (("queue/parts/groups", "if key and over then", "if false then"),)),
    Build("a retry gives its key away", (("queue/parts/groups", "if key and over then", "if key then"),)),
    Build("a group runs until it is empty", (("queue/parts/groups", _TURN, "redis.call('LPUSH', round, group)"),)),
    Build("a group slot is not freed", (("queue/parts/groups", _GROUP, "if key"),)),
    Build("a full group is forgotten", (("queue/parts/groups", _AGAIN, "then end\n  end\n  tidy(group)"),)),
    Build("returned jobs go last", (("queue/settle", _BACK, "admit(id, record, now / 1000)"),)),
    Build("recovered jobs go last", (("queue/recover", _BACK, "admit(id, record, now / 1000)"),)),
    Build("a job that gets its key late goes last", (("queue/parts/groups", _NUMBER, "next_number(now)"),)),
    Build(
        "a job waits since it was fetched", (("queue/parts/groups", "next_number(due_ms * 1000)", "next_number(now)"),)
    ),
    Build("the newest lease comes back first", (("queue/parts/groups", f"'-' .. {_FENCE}", f"{_FENCE} - 9e15"),)),
)
MOVED_MUTANTS = (
    Build("a job that leaves its group queue keeps its key", (("queue/parts/groups", _GIVES, ""),)),
    Build("a cancelled job stays in its group queue", (("queue/parts/leave", "leave_group_queue(id, record)", ""),)),
    Build("a cleared job stays in its group queue", (("queue/clear", "leave_group_queue(id, record)", ""),)),
    Build("a number that is not forgotten", (("queue/parts/groups", "redis.call('HDEL', groups, '@ ' .. id)", ""),)),
    Build(
        "a group that is never forgotten",
        (("queue/parts/groups", "redis.call('HDEL', groups, 'l ' .. group, 's ' .. group)", ""),),
    ),
    Build("a cancelled job keeps its key", (("queue/settle", " or outcome == 'c')", ")"),)),
)
MANY_GROUPS_MUTANTS = (
    Build(
        "a worker idles after checking some groups",
        (FEW, ("queue/reserve", "unseen = lease_turns(level, room) or unseen", "lease_turns(level, room)")),
    ),
    Build("a worker rechecks throttled groups", (FEW, ("queue/reserve", "(budget <= 0 or unseen)", "grouped"))),
)
