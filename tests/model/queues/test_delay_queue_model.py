"""The delay queue against its model, and broken ones that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.delay_queue_machine import DelayQueueMachine
from simulation.server import Build, Server

_PART = "parts/dq"
_DUE = "ZRANGEBYSCORE', entries, '-inf', now"
_MOVED = "(score ~= '' and math.floor(tonumber(due)) ~= tonumber(score))"
MUTANTS = (
    Build("adds again", (("dq_add", "if done then", "if false then"),)),
    Build("removes again", (("dq_remove", "if done then", "if false then"),)),
    Build("forgets at once", ((_PART, "now - since >= KEPT * 1000", "true"),)),
    Build("replaces an item that it should keep", (("dq_add", "'NX'", "'CH'"),)),
    Build("keeps an item that it should replace", (("dq_add", "'CH'", "'NX'"),)),
    Build("removes a moved item", (("dq_remove", _MOVED, "false"),)),
    Build("takes early", (("dq_pop", "'-inf', now, 'WITHSCORES'", "'-inf', now + 1000000, 'WITHSCORES'"),)),
    Build("takes the newest", (("dq_pop", _DUE, "ZREVRANGEBYSCORE', entries, now, '-inf'"),)),
    Build("notifies one of many", (("dq_add", "wake(count)", "wake(1)"),)),
    Build("no waiter takes over the watch", (("dq_pop", "if leave(request) and first[1] or", "leave(request)\nif"),)),
    Build("puts no item back", (("dq_abandon", "if #pairs > 0 then", "if false then"),)),
    Build("puts back over a newer item", (("dq_abandon", "'NX'", "'CH'"),)),
    Build("an abandoned pop takes", (("dq_abandon", "remember(request, cmsgpack.pack({}), 1)", ""),)),
    Build("the dead stay first", (("dq_pop", "if not place or place[2] <= now then", "if not place then"),)),
)  # fmt: skip


def test_a_delay_queue_matches_its_model(simulated: Server) -> None:
    check(DelayQueueMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_delay_queue_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(DelayQueueMachine, simulated, mutant)
