"""Mutants of the limits of a queue."""

from __future__ import annotations

from simulator.server import Build

_LIMITS = "queue/parts/limits"
_PUSH = "queue/parts/push"
_SOME = "push(FIRST, again, first)"
_COUNT = "redis.call('HINCRBY', stats, 'running', count)"
_FULL = "redis.call('HSET', stats, 'full', string.format('%.0f', us))"
_KNOWN = "local known = redis.call('HEXISTS', jobs, id) == 1"
_SPREAD = "if retry_at > soonest + 1000000 then retry_at = soonest end"
_FREED = "count_freed(had - rest)"
_PAUSE = "redis.call('HSETNX', stats, name, math.floor(now / 1000))"
_RUNS = "redis.call('HLEN', jobs) - queue.running"
_DUE = "(queue.was_blocked and redis.call('ZCARD', due) > 0 and 1 or 0)"
_RUNNING = " - (redis.call('HGET', stats, 'running') or 0)"
MUTANTS = (
    Build("leased jobs are not counted", ((_LIMITS, _COUNT, "queue.running"),)),
    Build("settled jobs stay counted", (("queue/settle", "count_freed(freed)", ""),)),
    Build("a late settle is counted", (("queue/settle", "count_freed(freed)", "count_freed(#ids)"),)),
    Build("recovered jobs stay counted", (("queue/recover", _FREED, ""),)),
    Build("a death counts as one job", (("queue/recover", _FREED, "count_freed(1)"),)),
    Build("a pause that expires", (("queue/set_rules", _PAUSE, ""),)),
    Build("a rate without memory", ((_LIMITS, _FULL, ""),)),
    Build("a rate that forgets the burst", ((_LIMITS, "count * queue.rate_us", "1 * queue.rate_us"),)),
    Build("a rate-limited worker gets a late retry_at", ((_LIMITS, _SPREAD, ""),)),
    Build("a repeated call returns another retry_at", ((_LIMITS, "awaited and math.max(", "math.max("),)),
    Build("a worker with retry_at is woken earlier", (("queue/parts/wake", "and now or", "and '+inf' or"),)),
    Build("a paused queue wakes workers", ((_LIMITS, "return queue.paused or", "return"),)),
    Build("jobs scheduled meanwhile are forgotten", ((_PUSH, _DUE, "0"),)),
    Build("running jobs count as waiting", ((_PUSH, _RUNS, "redis.call('HLEN', jobs)"),)),
    Build("dead jobs count as waiting", ((_PUSH, " - redis.call('ZCARD', dead)", ""),)),
    Build("one more than there is room for", (("queue/push", "again, first)", "again, first + 1)"),)),
    Build("some, but not those that came first", (("queue/push", _SOME, "push(FIRST + STRIDE, again, first)"),)),
    Build("one alone is one more than may wait", (("queue/push_one", "waiting >= size", "waiting > size"),)),
    Build("running jobs count as waiting for a single enqueue", (("queue/push_one", _RUNNING, ""),)),
    Build("dead jobs count as waiting for a single enqueue", (("queue/push_one", " - redis.call('ZCARD', dead)", ""),)),
    Build("a call sent again is refused", ((_PUSH, _KNOWN, "local known = false"),)),
)  # fmt: skip
JOB_MUTANTS = (
    Build("jobs that can expire are never refused", (("queue/push_until", "if no_room then return no_room end", ""),)),
    Build(
        "a job that was cancelled counts as running",
        (("queue/settle", "count_freed(freed)", "count_freed(freed - (counts.c or 0))"),),
    ),
    Build(
        "a job that a death cancelled counts as running",
        (("queue/recover", _FREED, "count_freed(had - rest - cancelled)"),),
    ),
)
