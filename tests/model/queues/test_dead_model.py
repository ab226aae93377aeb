"""The dead set and what clears a queue against their model, and broken builds that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.dead_machine import DeadMachine
from simulation.server import Build, Server

_KEPT = "if last[1] >= step then return last[2] end"
_FRESH = "if anew then redis.call('HDEL', tries, unpack(ids)) end"
_SAME = "low < high do"
_CLEARED = "for place = 1, 5 do\n  local most"
MUTANTS = (
    Build("a repeated step is done again", (("parts/step", _KEPT, ""),)),
    Build("a revived job stays dead, too", (("dead_retry", "redis.call('ZREM', dead, id)", ""),)),
    Build("attempts never begin anew", (("dead_retry", _FRESH, ""),)),
    Build("attempts always begin anew", (("dead_retry", "if anew then", "if true then"),)),
    Build(
        "the old outcome is taken for the new one", (("dead_retry", "redis.call('HDEL', results[1], unpack(ids))", ""),)
    ),
    Build("a job that is not dead is revived", (("dead_retry", "local record = died and", "local record = "),)),
    Build("a deleted job keeps its record", (("parts/forget", "redis.call('HDEL', jobs, unpack(ids))", ""),)),
    Build("deletions are not counted", (("parts/forget", "'forgotten', #ids", "'forgotten', 0"),)),
    Build("the age limit is ignored", (("dead_trim", "tonumber(oldest[at + 1]) > latest", "true"),)),
    Build("one job too many is trimmed", (("dead_trim", "#ids >= over", "#ids > over"),)),
    Build("the newest go", (("dead_trim", "redis.call('ZRANGE', dead", "redis.call('ZREVRANGE', dead"),)),
    Build("pages pass over those of the same moment", (("parts/rank", _SAME, "false do"),)),
    Build(
        "pages repeat their last job", (("parts/rank", "rank(key, score, id, true)", "rank(key, score, id, false)"),)
    ),
    Build("ages are not looked at", (("parts/rank", "if greatest ~= '' then", "if false then"),)),
    Build("scheduled jobs outlive the clearing", (("jobs_clear", _CLEARED, _CLEARED.replace("5", "3")),)),
    Build("cleared jobs keep their record", (("jobs_clear", "redis.call('HDEL', jobs, unpack(ids))", "#ids"),)),
)


def test_a_dead_set_matches_its_model(simulated: Server) -> None:
    check(DeadMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_dead_set_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(DeadMachine, simulated, mutant)
