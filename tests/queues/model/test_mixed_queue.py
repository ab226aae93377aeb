"""Queues with all features mixed: all counters agree, and the recount catches mutants."""

from __future__ import annotations

from collections.abc import Iterator

import hiredis
import pytest

import mutants
from queues.model.mixed_queue import MixedQueue
from simulator.server import Build, Server

_FEW = ("flows/parts/ended", "local STEPS = 150", "local STEPS = 2")
"""Leaves work of a flow to the next call."""
_GOES_ON = "redis.call('ZADD', expiry, math.floor(now / 1000), 'flow ' .. flow.id)"
_CLEARED = "flow_ended(id, record, 'c', '')"
_UNUSED = "redis.call('ZADD', throttled, -math.ceil(unused_at / 1000), '- ' .. group)"
_RINGS = "unpack(rounds)"
_RESULT = "redis.call('HDEL', newer_results, id, id .. ' p')\nredis.call('HDEL', older_results, id, id .. ' p')"
_SCARCE = ("history/parts/history", "SUCCESS_BURST, FEWEST = 5000, 200, 20", "SUCCESS_BURST, FEWEST = 3000000, 3, 1")
"""Makes history leave out successes."""
_RETRIED = "redis.call('HSET', tries, id, tried)\n      note_attempt("
_ENDED = "keep_ended(id, letter, tried or '0', record, '')"
_FLOW_ENDED = "keep_ended(id, 'c', tried or '0', job_record, '')"
MUTANTS = (
    Build("a key is given away for good", (("queue/parts/groups", "if key and over then", "if false then"),)),
    Build("remaining steps of a flow are forgotten", (_FEW, ("flows/parts/ended", _GOES_ON, ""))),
    Build("blocked jobs are counted once", (("flows/parts/jobs", "redis.call('HINCRBY', flows, '#', -1)", "1"),)),
    Build("a started job may expire", (("queue/reserve", "redis.call('ZREM', expiry, unpack(started))", ""),)),
    Build("a flow waits for cleared jobs", (("queue/clear", _CLEARED, ""),)),
    Build("a rate is kept forever", (("queue/parts/groups", _UNUSED, ""),)),
    Build(
        "group round-robins are kept forever",
        (("queue/reserve", f"group_queue, throttled, {_RINGS})", "group_queue, throttled)"),),
    ),
    Build("a rerun job has an outcome", (("queue/revive", _RESULT, ""),)),
    Build("a rerun job stays in history", (("queue/revive", "forget_ended(id)", ""),)),
    Build("history forgets waiting jobs", (("queue/parts/leave", _ENDED, ""),)),
    Build("history forgets jobs of flows", (("flows/parts/jobs", _FLOW_ENDED, ""),)),
    Build("history forgets running jobs", (("queue/settle", "keep_ended(id, 'c', token, record, session)", ""),)),
    Build(
        "successes left out are not counted",
        (_SCARCE, ("history/parts/history", "if count > #ids then", "if nil then")),
    ),
    Build(
        "successes are counted twice",
        (("history/parts/history", "'left_out', count - #ids", "'left_out', count"), _SCARCE),
    ),
    Build(
        "history forgets overruns",
        (_SCARCE, ("queue/settle", "if overran then\n        keep_", "if nil then\n        keep_")),
    ),
    Build(
        "an overrun is counted as left out",
        (("queue/settle", "if not overran then successes", "if true then successes"),),
    ),
    Build("an overrun is not marked", (("queue/settle", "session, true)", "session)"),)),
    Build("attempts outlive their job", (("queue/settle", "forget_timelines(ended)", ""),)),
    Build(
        "a failed attempt is not recorded", (("queue/settle", _RETRIED, _RETRIED.replace("note_attempt", "tostring")),)
    ),
    Build(
        "a dead worker's attempt is not recorded",
        (("queue/recover", "if tried then note_attempt", "if nil then note_attempt"),),
    ),
    Build(
        "the first attempt is taken for the last",
        (("history/parts/history", "others .. attempt", "attempt .. others"),),
    ),
    Build("a dead job leaves its attempts", (("dead/parts/forget", "redis.call('HDEL', timelines, unpack(ids))", ""),)),
    Build("cleared jobs leave their attempts", (("queue/clear", "forget_timelines(ids)", ""),)),
    Build("cleared jobs stay parked", (("queue/clear", "unpark(ids, true)", ""),)),
    Build("cancelled jobs of a flow stay parked", (("flows/parts/jobs", "unpark({id}, true)", ""),)),
    Build("parked jobs do not expire", (("queue/settle", "if expires_ms then", "if false then"),)),
    Build(
        "a queue pays for jobs that were parked", (("queue/parts/parked", "redis.call('HDEL', stats, 'parked')", ""),)
    ),
)


@pytest.fixture
def mute(simulated: Server) -> Iterator[Server]:
    """The server, with a user that may use no channel."""
    simulated.command("ACL", "SETUSER", "mute", "on", "nopass", "~*", "+@all", "resetchannels")
    simulated.command("AUTH", "mute", "")
    yield simulated
    simulated.command("AUTH", "default", "")
    simulated.command("ACL", "DELUSER", "mute")


@pytest.mark.parametrize("few", [False, True], ids=["as released", "small steps"])
def test_counters_agree_with_all_features_mixed(simulated: Server, few: bool) -> None:
    build = (
        Build("small steps", (_FEW, _SCARCE, ("queue/clear", "local JOBS = 500", "local JOBS = 3"))) if few else Build()
    )
    for seed in range(20):
        MixedQueue(simulated, build, seed).walk(60)


@pytest.mark.parametrize("twin", MUTANTS, ids=lambda twin: twin.name)
def test_counters_that_disagree_are_noticed(simulated: Server, twin: Build) -> None:
    def caught(seed: int) -> bool:
        try:
            MixedQueue(simulated, twin, seed).walk(60)
        except AssertionError:
            return True
        return False

    mutants.check_caught(caught, 300)


def test_counters_agree_without_publish_rights(mute: Server) -> None:
    for seed in range(10):
        MixedQueue(mute, Build(), seed).walk(60)


def test_scripts_that_stop_at_a_refused_publish_are_noticed(mute: Server) -> None:
    stops = Build("stops", (("parts/publish", "redis.pcall", "redis.call"),))
    with pytest.raises(hiredis.ReplyError, match="channel"):
        for seed in range(30):
            MixedQueue(mute, stops, seed).walk(60)
