"""Jobs with a key or a group against their model, and broken queues that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.lines_machine import CrowdedLinesMachine, LinesMachine
from model.queues.moved_lines_machine import MovedLinesMachine
from simulation.server import Build, Server

_TURN = "redis.call('RPUSH', ring, group)"
_AGAIN = "then enter_ring(level, group) end\n  end\n  tidy(group)"
_GIVES = "if key then left_key(key, id) end"
_BACK = "admit(id, record, token)"
_FENCE = "string.match(token, ' (%d+)')"
_FEW = ("parts/lines", "passed_over > 1000", "passed_over > 0")
_GROUP = "left_group(group)\n  if key"
TWINS = (
    Build("a key is given away for good", (("parts/lines", "if key and over then", "if false then"),)),
    Build("a retry gives its key away", (("parts/lines", "if key and over then", "if key then"),)),
    Build("a group goes on until its end", (("parts/lines", _TURN, "redis.call('LPUSH', ring, group)"),)),
    Build("a place in the group is not given back", (("parts/lines", _GROUP, "if key"),)),
    Build("a full group is forgotten", (("parts/lines", _AGAIN, "then end\n  end\n  tidy(group)"),)),
    Build("what is given back goes last", (("jobs_settle", _BACK, "admit(id, record)"),)),
    Build("what is recovered goes last", (("jobs_recover", _BACK, "admit(id, record)"),)),
    Build("the newest lease comes back first", (("parts/lines", f"'-' .. {_FENCE}", f"{_FENCE} - 9e15"),)),
)
MOVED_TWINS = (
    Build("who leaves its line keeps its key", (("parts/lines", _GIVES, ""),)),
    Build("who is cancelled stays in line", (("parts/leave", "leave_lines(id, record)", ""),)),
    Build("who is cleared away stays in line", (("jobs_clear", "leave_lines(id, record)", ""),)),
    Build("a number that is not forgotten", (("parts/lines", "redis.call('HDEL', books, '@ ' .. id)", ""),)),
    Build("a group that is never forgotten", (("parts/lines", "redis.call('HDEL', books, 'l ' .. group)", ""),)),
    Build("a cancelled job keeps its key", (("jobs_settle", " or outcome == 'c')", ")"),)),
)
CROWDED_TWINS = (
    Build(
        "who looked at some groups sleeps",
        (_FEW, ("jobs_reserve", "unseen = lease_turns(level, room) or unseen", "lease_turns(level, room)")),
    ),
    Build("who sees that none may go on looks again", (_FEW, ("jobs_reserve", "(budget <= 0 or unseen)", "grouped"))),
)


def test_lines_do_what_their_model_says(simulated: Server) -> None:
    check(MovedLinesMachine, simulated, Build())


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_broken_lines_are_caught(simulated: Server, twin: Build) -> None:
    check_caught(LinesMachine, simulated, twin)


@pytest.mark.parametrize("twin", MOVED_TWINS, ids=lambda twin: twin.name)
def test_lines_that_are_left_badly_are_caught(simulated: Server, twin: Build) -> None:
    check_caught(MovedLinesMachine, simulated, twin)


def test_lines_of_more_groups_than_a_call_looks_at(simulated: Server) -> None:
    check(CrowdedLinesMachine, simulated, Build("few groups a call", (_FEW,)))


@pytest.mark.parametrize("twin", CROWDED_TWINS, ids=lambda twin: twin.name)
def test_broken_lines_of_many_groups_are_caught(simulated: Server, twin: Build) -> None:
    check_caught(CrowdedLinesMachine, simulated, twin)
