"""Mutants of the limiter."""

from __future__ import annotations

from simulator.server import Build

_PART = "synchronizers/parts/limiter"
BUCKETS = (
    Build(
        "drops fractions of a microsecond",
        ((_PART, "(part - part_left) / rule.parts, part_left", "(part - part_left) / rule.parts, 0"),),
    ),
    Build("takes twice", (("synchronizers/limiter_take", "if entry then", "if false then"),)),
    Build(
        "books slots without a waiter",
        (("synchronizers/limiter_take", "if wait >= 0 and at - now > wait then", "if false then"),),
    ),
    Build(
        "returns slots booked at another rate", (("synchronizers/limiter_return", "<= state.fixed then", "< 0 then"),)
    ),
    Build("moves slots booked at another rate", (("synchronizers/limiter_take", "score > state.fixed", "true"),)),
    Build(
        "an abandoned slot in the middle stays booked",
        ((_PART, "entry.full_before, entry.part_before = full, part", ""),),
    ),
    Build(
        "a caller that moves up keeps its old slot",
        (("synchronizers/limiter_take", "update_next(state, rank + 1, full, part, levels)", ""),),
    ),
    Build(
        "overtakes while it moves up",
        (("synchronizers/limiter_take", "previous and read_entry(previous).slot_us or 0", "0"),),
    ),
    Build(
        "a new rate forgets the usage",
        ((_PART, "if changed and state.full", "if true then state.full = base elseif changed and state.full"),),
    ),
    Build(
        "a new rate stretches the booked slots",
        ((_PART, "local base = math.max(now, state.last)", "local base = now"),),
    ),
    Build("a new rate overtakes", ((_PART, "math.max(now, state.last, free", "math.max(now, free"),)),
    Build(
        "one more in a burst",
        (
            (
                _PART,
                "time_for(rule, rule.limit)",
                "time_for(rule, rule.limit + 1)",
            ),
        ),
    ),
)
WINDOWS = (
    Build("a remaining caller keeps its slot", (("synchronizers/limiter_take", "at < entry.slot_us", "false"),)),
    Build("no waiter is notified", ((_PART, "publish(entry.channel, limiter .. ':' .. request)", ""),)),
    Build(
        "moves up beside others",
        (("synchronizers/limiter_take", "count = score - entry.units", "count = score - entry.units - 1"),),
    ),
    Build(
        "a caller that moves up notifies no one",
        (("synchronizers/limiter_take", "update_next(state, rank + 1, full, part, levels)", ""),),
    ),
    Build("takes twice", (("synchronizers/limiter_take", "if entry then", "if false then"),)),
    Build("one more in a window", ((_PART, "state.count + n - rule.limit", "state.count + n - rule.limit - 1"),)),
    Build("forgets too early", ((_PART, "slot_us + rule.period)", "slot_us + rule.period - 1000)"),)),
    Build("overtakes", ((_PART, "local at = math.max(now, state.last)", "local at = now"),)),
    Build(
        "gives back twice",
        (
            ("synchronizers/limiter_return", "redis.call('HDEL', limiter, 'e' .. request)", ""),
            (
                "synchronizers/limiter_return",
                "redis.call('ZRANK', log, request)",
                "(redis.call('ZRANK', log, request) or 0)",
            ),
        ),
    ),
    Build("a gap stays", (("synchronizers/limiter_return", "for at = 1, #later, 2 do", "for at = 1, 0 do"),)),
)
SEVERAL = (
    Build("ignores the second rate", ((_PART, "at = math.max(at, other_free)", ""),)),
    Build(
        "takes no units of the second rate",
        ((_PART, "levels[2 * place] = end_us, end_part", "levels[2 * place] = 0, 0"),),
    ),
    Build("returns no units of the other rates", ((_PART, "state.levels = state.others and levels or {}", ""),)),
    Build(
        "a booking behind a returned one keeps the other buckets",
        ((_PART, "if state.others then entry.others_before = levels end", ""),),
    ),
    Build(
        "moves up without the other buckets",
        (("synchronizers/limiter_take", "levels = entry.others_before", "levels = {0, 0, 0, 0}"),),
    ),
)
SEVERAL_WINDOWS = (
    Build(
        "ignores the second window",
        (
            (
                _PART,
                "for _, other in ipairs(others) do at = fits_window",
                "for _, other in ipairs({}) do at = fits_window",
            ),
        ),
    ),
    Build(
        "forgets after the shortest period",
        (
            (_PART, "slot_us > now - state.longest", "slot_us > now - 2 * state.rule.period"),
            (_PART, "RETENTION_US = 60000000", "RETENTION_US = 1000000"),
            (_PART, "size % 8 ~= 0", "false"),
        ),
    ),
)
