"""Unique jobs against their model, and broken queues that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.unique_machine import UniqueMachine
from simulation.queues.unique_queue_twins import COMMON
from simulation.server import Build, Server

_PUSH = "jobs_push_unique"
_LIMIT = "if limit ~= '' then redis.call('ZADD', expiry, moment(limit), id) else redis.call('ZREM', expiry, id) end"
TWINS = (
    *COMMON,
    Build(
        "who is cancelled keeps its name",
        (("parts/leave", "if not plain(record) then free_name", "if nil then free_name"),),
    ),
    Build("who is cleared away keeps its name", (("jobs_clear", "free_name(id, record)", ""),)),
    Build("a lost job has its name for ever", (("parts/names", "redis.call('HEXISTS', KEYS[1], id) == 1 and", ""),)),
    Build("its steps count for the next", ((_PUSH, "redis.call('HDEL', notes, id)", ""),)),
    Build("it expires when the first would have", ((_PUSH, _LIMIT, ""),)),
    Build("names of the past are kept", ((_PUSH, "redis.call('HDEL', unique, unpack(over))", ""),)),
)


def test_unique_jobs_do_what_their_model_says(simulated: Server) -> None:
    check(UniqueMachine, simulated, Build())


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_broken_names_are_caught(simulated: Server, twin: Build) -> None:
    check_caught(UniqueMachine, simulated, twin)
