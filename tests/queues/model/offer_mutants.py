"""Mutants of offers: jobs sent to idle workers along with their wake-ups."""

from __future__ import annotations

from simulator.server import Build

_OFFER = "queue/parts/offer"
_FENCE = "redis.call('HSET', stats, 'fence', string.format('%.0f', fence))"
_USED = "if -since <= known and not awake"
_SLEEPERS = "idle_workers, 0, '+inf', 'LIMIT'"
MUTANTS = (
    Build("a busy worker is offered a job", ((_OFFER, "channel) or -1) < 0", "channel) or 1) < 0"),)),
    Build("an offer overtakes those that wait", ((_OFFER, "redis.pcall('LLEN', ready) ~= 0 or", ""),)),
    Build("an offer to one that runs others", ((_OFFER, " or redis.pcall('HLEN', run) ~= 0", ""),)),
    Build("an offer to a session that is over", ((_OFFER, "<= now / 1000", "< 0"),)),
    Build("large ones are offered", ((_OFFER, " or #record > LARGE", ""),)),
    Build("an offer without a listener", ((_OFFER, "not has_subscriber(channel) then", "false then"),)),
    Build("an offer leaves no mark", ((_OFFER, "'ZADD', idle_workers, -fence", "'ZREM', idle_workers"),)),
    Build("an offer without a lease", ((_OFFER, "redis.call('HSET', run, id, token)", ""),)),
    Build("an offer that is not counted", ((_OFFER, "count_leased(1)", ""),)),
    Build("a received offer is sent again", (("queue/reserve", "local offered =", "local known, offered = 0,"),)),
    Build(
        "a worker that forwards an offer keeps the job",
        (("queue/forward_wakeup", "if given > known then", "if false then"),),
    ),
    Build("forwarded jobs stay counted", (("queue/forward_wakeup", "count_freed(1)", ""),)),
    Build("forwarded jobs go last", (("queue/forward_wakeup", "'LPUSH'", "'RPUSH'"),)),
    Build(
        "a worker with an offer is woken",
        (("queue/parts/wake", "idle_workers, 0, last", "idle_workers, '-inf', last"),),
    ),
    Build("a worker that idles forgets offers", (("queue/reserve", "0, now - GONE", "'-inf', now - GONE"),)),
    Build("marks of the dead stay", (("queue/recover", "redis.call('ZREM', idle_workers, channel)", ""),)),
    Build("an offer that was not received counts", (("queue/recover", "== offered then", "== -1 then"),)),
    Build("an offer that began does not count", (("queue/recover", "== offered then", "then"),)),
    Build("the enqueuer gets no worker for the offer", (("queue/push_one", "or taker or 1", "or 1"),)),
    Build("a second offer before an answer", ((_OFFER, "channel) or -1) < 0", "channel) or -1) == -1"),)),
    Build("its fence is forgotten", ((_OFFER, _FENCE, ""),)),
    Build("a worker that used its offer wakes others", (("queue/forward_wakeup", _USED + " then return 0 end", ""),)),
    Build("a worker without a free slot keeps its timer", (("queue/forward_wakeup", _USED, "if -since <= known"),)),
)  # fmt: skip
LIMIT_MUTANTS = (
    Build("an offer in a pause", ((_OFFER, " or is_blocked()", ""),)),
    Build("an offer beyond the rate", ((_OFFER, " or queue.rate_jobs", ""),)),
    Build("resume forgets offers", (("queue/set_rules", _SLEEPERS, _SLEEPERS.replace("0", "'-inf'")),)),
)  # fmt: skip
CANCEL_MUTANTS = (
    Build("forwarded jobs are not cancelled", (("queue/forward_wakeup", "if record and mark and", "if false and"),)),
)
