"""Jobs with a key or a group against their model, and broken queues that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.groups_machine import GroupsMachine, ManyGroupsMachine
from model.queues.moved_groups_machine import MovedGroupsMachine
from simulation.server import Build, Server

_TURN = "redis.call('RPUSH', round, group)"
_AGAIN = "then enter_round(level, group) end\n  end\n  tidy(group)"
_GIVES = "if key then left_key(key, id) end"
_BACK = "admit(id, record, token)"
_FENCE = "string.match(token, ' (%d+)')"
_FEW = ("parts/groups", "passed_over > 1000", "passed_over > 0")
_GROUP = "left_group(group)\n  if key"
MUTANTS = (
    Build("a key is given away for good", (("parts/groups", "if key and over then", "if false then"),)),
    Build("a retry gives its key away", (("parts/groups", "if key and over then", "if key then"),)),
    Build("a group runs until it is empty", (("parts/groups", _TURN, "redis.call('LPUSH', round, group)"),)),
    Build("a group slot is not freed", (("parts/groups", _GROUP, "if key"),)),
    Build("a full group is forgotten", (("parts/groups", _AGAIN, "then end\n  end\n  tidy(group)"),)),
    Build("returned jobs go last", (("jobs_settle", _BACK, "admit(id, record)"),)),
    Build("recovered jobs go last", (("jobs_recover", _BACK, "admit(id, record)"),)),
    Build("the newest lease comes back first", (("parts/groups", f"'-' .. {_FENCE}", f"{_FENCE} - 9e15"),)),
)
MOVED_MUTANTS = (
    Build("a job that leaves its group queue keeps its key", (("parts/groups", _GIVES, ""),)),
    Build("a cancelled job stays in its group queue", (("parts/leave", "leave_group_queue(id, record)", ""),)),
    Build("a cleared job stays in its group queue", (("jobs_clear", "leave_group_queue(id, record)", ""),)),
    Build("a number that is not forgotten", (("parts/groups", "redis.call('HDEL', groups, '@ ' .. id)", ""),)),
    Build("a group that is never forgotten", (("parts/groups", "redis.call('HDEL', groups, 'l ' .. group)", ""),)),
    Build("a cancelled job keeps its key", (("jobs_settle", " or outcome == 'c')", ")"),)),
)
MANY_GROUPS_MUTANTS = (
    Build(
        "a worker idles after checking some groups",
        (_FEW, ("jobs_reserve", "unseen = lease_turns(level, room) or unseen", "lease_turns(level, room)")),
    ),
    Build("a worker rechecks throttled groups", (_FEW, ("jobs_reserve", "(budget <= 0 or unseen)", "grouped"))),
)


def test_groups_match_their_model(simulated: Server) -> None:
    check(MovedGroupsMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_broken_groups_are_caught(simulated: Server, mutant: Build) -> None:
    check_caught(GroupsMachine, simulated, mutant)


@pytest.mark.parametrize("mutant", MOVED_MUTANTS, ids=lambda mutant: mutant.name)
def test_groups_left_inconsistent_are_caught(simulated: Server, mutant: Build) -> None:
    check_caught(MovedGroupsMachine, simulated, mutant)


def test_more_groups_than_one_call_checks(simulated: Server) -> None:
    check(ManyGroupsMachine, simulated, Build("few groups a call", (_FEW,)))


@pytest.mark.parametrize("mutant", MANY_GROUPS_MUTANTS, ids=lambda mutant: mutant.name)
def test_broken_round_robin_of_groups_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(ManyGroupsMachine, simulated, mutant)
