"""Mutants of the queue, by the rule that they break. The checkers must catch each, or they prove nothing."""

from __future__ import annotations

from locks.simulation.lock_mutants import LATE, WITHOUT_KILL
from simulator.server import Build

MUTANTS = {
    "Q1": (
        LATE,
        WITHOUT_KILL,
        Build(
            "a push that is sent again revives a job that ended",
            (("queue/parts/push", "local ended = again and", "local ended = false and"),),
        ),
        Build(
            "a reserve call that is sent again forgets its jobs",
            (("queue/reserve", "if again or offered > known then", "if offered > known then"),),
        ),
        Build(
            "a retry is dropped",
            (("queue/settle", "redis.call('ZADD', due, math.floor(now / 1000) + delay, id)", ""),),
        ),
    ),
    "Q2": (
        Build(
            "sessions are recovered during a live lease",
            (("queue/heartbeat", "if left == 0 then overdue", "if left >= 0 then overdue"),),
        ),
        Build("a recovered job stays leased", (("queue/recover", "redis.call('HDEL', run, id)", ""),)),
    ),
    "Q3": (
        Build("any token settles", (("queue/settle", "if tokens[index] ~= token then", "if not tokens[index] then"),)),
        Build(
            "an outcome counts without a lease", (("queue/settle", "if tokens[index] ~= token then", "if false then"),)
        ),
    ),
    "Q4": (
        Build(
            "a dead child's jobs wait for their lease",
            (("queue/recover", "if not gone and deadline", "if deadline"),),
        ),
        Build(
            "a dead machine is not noticed",
            (("queue/heartbeat", "if left == 0 then overdue", "if left < 0 then overdue"),),
        ),
        Build("no worker is woken", (("queue/parts/wake", "while count > 0 and", "while false and"),)),
    ),
    "Q5": (
        Build(
            "a poison job never becomes dead",
            (("queue/recover", "crashes >= most_crashes", "false"),),
        ),
        Build("the cap on deliveries is ignored", (("queue/recover", "attempt >= most", "attempt >= 99 + most"),)),
    ),
    "Q11": (
        Build(
            "a shared crash counts for each job",
            (("queue/recover", "(shared and shared_crash or crashed)(token)", "crashed(token)"),),
        ),
        Build(
            "a shared crash leaves no suspects",
            (("queue/recover", "if (shared and tried) or ran_alone(token) then", "if ran_alone(token) then"),),
        ),
        Build(
            "a returned suspect runs beside others",
            (("queue/settle", "elseif ran_alone(token) then", "elseif false then"),),
        ),
        Build("suspects are forgotten", (("queue/heartbeat", "redis.call('ZCARD', suspects) or 0", "0 or 0"),)),
    ),
    "Q6": (
        Build(
            "sleeps on when a job is due",
            (("queue/reserve", "if next_due then retry_within(tonumber(next_due) - now_ms) end", ""),),
        ),
    ),
    "Q9": (
        Build(
            "a waiter is not notified",
            (("queue/parts/finish", "if redis.call('EXISTS', watch) == 0 then return end", "do return end"),),
        ),
        Build("an outcome is not found", (("queue/outcome", "or find_result(id)", ""),)),
        Build("ended jobs count as active", (("queue/outcome", "if blob then", "if false then"),)),
    ),
    "Q7": (
        Build(
            "returned jobs count",
            (("queue/settle", "elseif special == '*' then", "elseif redis.call('HSET', tries, id, tried) < 0 then"),),
        ),
        Build("a retry is not counted", (("queue/settle", "redis.call('HSET', tries, id, tried)", ""),)),
    ),
    "one job": (
        Build(
            "a job that has expired begins",
            (("queue/reserve", "if limit and tonumber(limit) <= now_ms then", "if false then"),),
        ),
        Build(
            "a snooze counts",
            (
                (
                    "queue/settle",
                    "elseif outcome == 'z' then",
                    "elseif outcome == 'z' then\n      redis.call('HSET', tries, id, tried)",
                ),
            ),
        ),
        Build(
            "cancelling takes running jobs",
            (("queue/parts/place", "redis.call('HEXISTS', run, id) == 1", "false"),),
        ),
    ),
    "Q10": (
        Build(
            "a counter that counts calls",
            (
                (
                    "queue/parts/push",
                    "redis.call('HINCRBY', stats, 'enqueued', pushed)",
                    "redis.call('HINCRBY', stats, 'enqueued', 1)",
                ),
            ),
        ),
    ),
    "offers": (
        Build("an offer is not sent again", (("queue/reserve", "again or offered > known", "again"),)),
        Build(
            "a worker with an offer stays idle",
            (("queue/parts/offer", "redis.call('ZADD', idle_workers, -fence, channel)", ""),),
        ),
        Build("an offer with an old fence", (("queue/parts/offer", "next_fence()", "1"),)),
    ),
    "keys and groups": (
        Build(
            "a key that is taken does not matter",
            (("queue/parts/groups", "if holder and holder ~= id then", "if false then"),),
        ),
        Build(
            "a group without a limit",
            (
                (
                    "queue/parts/groups",
                    "if most ~= '0' and tonumber(running or 0) >= tonumber(most) then return nil end",
                    "",
                ),
            ),
        ),
        Build(
            "a rate that is not counted",
            (("queue/parts/groups", "if jobs == '0' then return 0 end", "do return 0 end"),),
        ),
        Build("an idle worker is not woken", (("queue/reserve", "if grouped then wake_throttled() end", ""),)),
        Build(
            "the last comes first",
            (
                (
                    "queue/parts/groups",
                    "ZRANGEBYLEX', group_queue, '[' .. line .. '\\n', '(' .. line .. '\\v',",
                    "ZREVRANGEBYLEX', group_queue, '(' .. line .. '\\v', '[' .. line .. '\\n',",
                ),
            ),
        ),
    ),
    "dead and cleared jobs": (
        Build("attempts do not begin anew", (("dead/retry", "if anew then", "if false then"),)),
        Build(
            "a revived job keeps its outcome",
            (("queue/revive", "redis.call('HDEL', newer_results, id, id .. ' p')", ""),),
        ),
        Build(
            "a deleted job leaves its attempts", (("dead/parts/forget", "redis.call('HDEL', tries, unpack(ids))", ""),)
        ),
        Build("cleared jobs are not counted", (("queue/clear", "if deleted > 0 then", "if false then"),)),
    ),
}
