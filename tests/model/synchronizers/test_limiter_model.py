"""The limiter against its models, and broken limiters that they must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.synchronizers.limiter_machine import LimiterMachine, WindowMachine
from simulation.server import Build, Server

_PART = "parts/limiter"
BUCKETS = (
    Build(
        "drops fractions of a microsecond",
        ((_PART, "(part - left) / rule.parts, left", "(part - left) / rule.parts, 0"),),
    ),
    Build("takes twice", (("limiter_take", "if mine then", "if false then"),)),
    Build(
        "books slots without a waiter", (("limiter_take", "if wait >= 0 and at - now > wait then", "if false then"),)
    ),
    Build("returns slots booked at another rate", (("limiter_return", "<= state.fixed then", "< 0 then"),)),
    Build("moves slots booked at another rate", (("limiter_take", "score > state.fixed", "true"),)),
    Build("an abandoned slot in the middle stays booked", ((_PART, "behind[5], behind[6] = full, part", ""),)),
    Build("a caller that moves up keeps its old slot", (("limiter_take", "follow(state, rank + 1, full, part)", ""),)),
    Build("overtakes while it moves up", (("limiter_take", "before and entry(before)[1] or 0", "0"),)),
    Build(
        "a new rate forgets the usage",
        ((_PART, "if changed and state.full", "if true then state.full = base elseif changed and state.full"),),
    ),
    Build(
        "a new rate stretches the booked slots",
        ((_PART, "local base = math.max(now, state.last)", "local base = now"),),
    ),
    Build("a new rate overtakes", ((_PART, "math.max(now, state.last, full", "math.max(now, full"),)),
    Build(
        "one more in a burst",
        (
            (
                _PART,
                "span(rule, rule.limit)",
                "span(rule, rule.limit + 1)",
            ),
        ),
    ),
)
WINDOWS = (
    Build("a remaining caller keeps its slot", (("limiter_take", "at < mine[1]", "false"),)),
    Build("no waiter is notified", ((_PART, "publish(behind[7], limiter .. ':' .. request)", ""),)),
    Build("moves up beside others", (("limiter_take", "count = score - mine[2]", "count = score - mine[2] - 1"),)),
    Build("a caller that moves up notifies no one", (("limiter_take", "follow(state, rank + 1, full, part)", ""),)),
    Build("takes twice", (("limiter_take", "if mine then", "if false then"),)),
    Build("one more in a window", ((_PART, "state.count + n - rule.limit", "state.count + n - rule.limit - 1"),)),
    Build("forgets too early", ((_PART, "entry(first)[1] + rule.period)", "entry(first)[1] + rule.period - 1000)"),)),
    Build("overtakes", ((_PART, "local at = math.max(now, state.last)", "local at = now"),)),
    Build(
        "gives back twice",
        (
            ("limiter_return", "redis.call('HDEL', limiter, 'e' .. request)", ""),
            (
                "limiter_return",
                "redis.call('ZRANK', log, request)",
                "(redis.call('ZRANK', log, request) or 0)",
            ),
        ),
    ),
    Build("a gap stays", (("limiter_return", "for at = 1, #later, 2 do", "for at = 1, 0 do"),)),
)


@pytest.mark.parametrize("machine", [LimiterMachine, WindowMachine], ids=["bucket", "window"])
def test_a_limiter_matches_its_model(simulated: Server, machine: type[LimiterMachine]) -> None:
    check(machine, simulated, Build())


@pytest.mark.parametrize("twin", BUCKETS, ids=lambda twin: twin.name)
def test_a_broken_bucket_is_caught(simulated: Server, twin: Build) -> None:
    check_caught(LimiterMachine, simulated, twin)


@pytest.mark.parametrize("twin", WINDOWS, ids=lambda twin: twin.name)
def test_a_broken_window_is_caught(simulated: Server, twin: Build) -> None:
    check_caught(WindowMachine, simulated, twin)
