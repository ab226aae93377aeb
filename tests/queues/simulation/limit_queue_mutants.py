"""Mutants of pauses and limits of whole queues. The checker must catch each, or it proves nothing."""

from __future__ import annotations

from simulator.server import Build

_LIMITS = "queue/parts/limits"
_FREE = "if free > 0 then return math.min(want, free) end"
_OPEN = "math.max(again, takers(freed, group_queue))"
_DRAINED = "for channel in string.gmatch(queue.drain_channels, '%S+') do publish(channel, stats) end"
MUTANTS = (
    Build("a pause that is not received", ((_LIMITS, "if queue.paused then return 0 end", ""),)),
    Build("a pause that begins anew", (("queue/set_rules", "'HSETNX', stats", "'HSET', stats"),)),
    Build("resume wakes no worker", (("queue/set_rules", "publish(channel, jobs)", ""),)),
    Build("one job more than may run", ((_LIMITS, "max_running - queue", "max_running + 1 - queue"),)),
    Build("a free slot wakes no worker", (("queue/settle", _OPEN, "again"),)),
    Build("a rate that is too fast", ((_LIMITS, _FREE, "if free > 0 then return math.min(want, free + 1) end"),)),
    Build("a rate-limited worker gets no retry_at", (("queue/reserve", "if wait then retry_within(wait) end", ""),)),
    Build("one job more than may wait", (("queue/parts/push", "+ new > size then", "+ new > size + 1 then"),)),
    Build("a refused job is enqueued", (("queue/push", "return no_room end", "push(FIRST) return no_room end"),)),
    Build("a caller waiting for the end is not notified", ((_LIMITS, _DRAINED, ""),)),
    Build("running jobs do not delay the drain", (("queue/remaining", "{waiting, running", "{waiting, 0"),)),
    Build("due jobs do not delay the drain", (("queue/remaining", "redis.call('ZCARD', due)", "0"),)),
)  # fmt: skip
