"""Broken twins of pauses and limits of whole queues. The checker must catch each, or it proves nothing."""

from __future__ import annotations

from simulation.server import Build

_LIMITS = "parts/limits"
_COUNT = "redis.call('HINCRBY', stats, 'running', count)"
_FULL = "redis.call('HSET', stats, 'full', rules[5])"
_KNOWN = "local known = redis.call('HEXISTS', jobs, id) == 1"
_FREE = "if free > 0 then return math.min(want, free) end"
_OPEN = "math.max(again, takers(freed, lines))"
_FREED = "count_freed(had - rest)"
_PAUSE = "redis.call('HSETNX', stats, name, math.floor(now / 1000))"
_DRAINED = "for channel in string.gmatch(rules[8], '%S+') do publish(channel, stats) end"
_RUNS = "redis.call('HLEN', jobs) - at_work"
_NO_ROOM = "if no_room then return no_room end"
TWINS = (
    Build("a pause that is not heard", ((_LIMITS, "if rules[1] then return 0 end", ""),)),
    Build("a pause that ends by itself", (("queue_set", _PAUSE, ""),)),
    Build("a pause that begins anew", (("queue_set", "'HSETNX', stats", "'HSET', stats"),)),
    Build("to resume wakes nobody", (("queue_set", "publish(channel, jobs)", ""),)),
    Build("what is leased is not counted", ((_LIMITS, _COUNT, "at_work"),)),
    Build("what is settled stays counted", (("jobs_settle", "count_freed(freed)", ""),)),
    Build("who settles late is counted, too", (("jobs_settle", "count_freed(freed)", "count_freed(#ids)"),)),
    Build("what is recovered stays counted", (("jobs_recover", _FREED, ""),)),
    Build("one job more than may run", ((_LIMITS, "at_once - at_work))", "at_once + 1 - at_work))"),)),
    Build("a free place wakes nobody", (("jobs_settle", _OPEN, "again"),)),
    Build("a rate without memory", ((_LIMITS, _FULL, ""),)),
    Build("a rate that forgets the burst", ((_LIMITS, "count * rate_us", "1 * rate_us"),)),
    Build("a rate that is too fast", ((_LIMITS, _FREE, "if free > 0 then return math.min(want, free + 1) end"),)),
    Build("who comes too early learns nothing", (("jobs_reserve", "if wait then look_again(wait) end", ""),)),
    Build("one job more than may wait", ((_LIMITS, "waiting + new > size then", "waiting + new > size + 1 then"),)),
    Build("one job alone more than may wait", (("job_push", "waiting >= size", "waiting > size"),)),
    Build("what runs counts as waiting", ((_LIMITS, _RUNS, "redis.call('HLEN', jobs)"),)),
    Build("what is dead counts as waiting", ((_LIMITS, " - redis.call('ZCARD', dead)", ""),)),
    Build("what is sent again is refused", ((_LIMITS, _KNOWN, "local known = false"),)),
    Build("who is refused is enqueued", (("jobs_push", "return no_room end", "push(3, again) return no_room end"),)),
    Build("some are one too many", (("jobs_push", "push(3, again, first)", "push(3, again, first + 1)"),)),
    Build("what can expire is never refused", (("jobs_push_until", _NO_ROOM, ""),)),
    Build("who waits for the end is not told", ((_LIMITS, _DRAINED, ""),)),
    Build("what runs does not hinder the end", (("queue_drain", "return {waiting, running", "return {waiting, 0"),)),
    Build("what is due does not hinder the end", (("queue_drain", "redis.call('ZCARD', due)", "0"),)),
)  # fmt: skip
