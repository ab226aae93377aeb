"""Broken twins: builds that lack one rule of the protocol. The checkers must catch each, or they prove nothing."""

from __future__ import annotations

from simulation.server import Build

_UNPACKED = "local waiter = cmsgpack.unpack(packed)\n"
_HELD = "if held[1] and deadline > now then\n    if held[1] == owner then"

LOCKS = {
    "L1": (
        Build(
            "grants although a lease lasts",
            (("parts/ask", _HELD, _HELD.replace("now then", "now + 1000000 then", 1)),),
        ),
        Build(
            "hands over a lock that is held",
            (("parts/ask", _HELD, _HELD.replace("held[1] and", "held[1] == owner and", 1)),),
        ),
        Build("revives a lapsed grant", (("lock_renew", " and deadline > now then", " then"),)),
        Build("extends by too little", (("lock_renew", "'d', deadline)", "'d', deadline - 500000)"),)),
    ),
    "L2": (
        Build(
            "a fence that is not raised",
            (
                ("parts/line", "(tonumber(last) or 0) + 1", "(tonumber(last) or 0)"),
                ("parts/line", "if fence < now then", "if fence == 0 then"),
            ),
        ),
        Build("a fence from the clock alone", (("parts/line", "if fence < now then fence = now end", "fence = now"),)),
    ),
    "L3": (
        Build(
            "anybody may release", (("lock_release", "held[1] ~= ARGV[2] or held[2] ~= ARGV[3] or", "not held[3] or"),)
        ),
        Build("an old grant's fence may release", (("lock_release", "held[2] ~= ARGV[3] or", ""),)),
        Build("anybody may renew", (("lock_renew", "held[1] == ARGV[at] and held[2] == ARGV[at + 1] and", ""),)),
        Build("abandoning ends any grant", (("lock_abandon", "held[1] == ARGV[1] and held[2] == ARGV[2] and", ""),)),
    ),
    "L4": (
        Build(
            "dead waiters stay in line",
            (
                (
                    "parts/line",
                    "local waiter = cmsgpack.unpack(packed)\n      redis.call('HDEL'",
                    _UNPACKED + "if waiter[1] <= now and waiter[3] ~= mine then return waiter end redis.call('HDEL'",
                ),
            ),
        ),
        Build(
            "a claim that lasts as long as the longest lease",
            (
                (
                    "parts/line",
                    "grant(waiter[4], waiter[3], waiter[2], last)",
                    "grant(waiter[4], waiter[3], 600000, last)",
                ),
            ),
        ),
        Build("waiters look too late", (("parts/ask", "check = math.max(check, 1)", "check = 60000"),)),
        Build(
            "the next in line is not warned",
            (("parts/line", "if deadline - now >= (LOOK - LATE) * 1000 then return end", "do return end"),),
        ),
        Build(
            "a lock without an expiry",
            (
                ("parts/line", "redis.call('PEXPIRE', lock, math.max", "local _ = (math.max"),
                ("lock_acquire", "redis.call('PEXPIRE', KEYS[1], math.max", "local _ = (math.max"),
                ("lock_renew", "redis.call('PEXPIRE', lock, math.max", "local _ = (math.max"),
            ),
        ),
    ),
}

LATE = Build("a call may arrive after it was sent again", ends="never")
LOCKS["L6"] = (LATE, Build("a call may arrive after it was given up", ends="when it sends again"))

QUEUES = {
    "Q1": (
        LATE,
        Build(
            "a push that is sent again counts twice",
            (
                (
                    "parts/push",
                    "redis.call('HSETNX', jobs, id, record) == 1",
                    "redis.call('HSET', jobs, id, record) >= 0",
                ),
            ),
        ),
        Build(
            "a push that is sent again revives a job that ended",
            (("parts/push", "local ended = again and", "local ended = false and"),),
        ),
        Build(
            "a reserve call that is sent again forgets its jobs",
            (("jobs_reserve", "if ARGV[1] == '1' then", "if false then"),),
        ),
        Build(
            "a retry is dropped",
            (("jobs_settle", "redis.call('ZADD', due, math.floor(now / 1000) + ARGV[at + 4], id)", ""),),
        ),
    ),
    "Q2": (
        Build(
            "sessions are given up while their lease lasts",
            (
                ("jobs_beat", "if left == 0 then overdue", "if left >= 0 then overdue"),
                ("jobs_recover", "deadline > now / 1000 then", "deadline > now / 1000 + 1000000 then"),
            ),
        ),
        Build("a recovered job stays leased", (("jobs_recover", "redis.call('HDEL', run, id)", ""),)),
    ),
    "Q3": (
        Build("any token settles", (("jobs_settle", "if tokens[index] ~= token then", "if not tokens[index] then"),)),
        Build(
            "an outcome counts without a lease", (("jobs_settle", "if tokens[index] ~= token then", "if false then"),)
        ),
    ),
    "Q5": (
        Build(
            "a poison job is never buried",
            (("jobs_recover", "if attempt >= tonumber(", "if attempt >= 99 + tonumber("),),
        ),
    ),
    "Q6": (
        Build(
            "due a little early",
            (("jobs_reserve", "local today = math.floor(now / 1000)", "local today = math.floor(now / 1000) + 300"),),
        ),
    ),
    "Q7": (Build("a retry is not counted", (("jobs_settle", "redis.call('HSET', tries, id, attempt)", ""),)),),
    "one job": (
        Build(
            "a job that is to be cancelled is retried",
            (("jobs_settle", "if mark and outcome ~= 's' and", "if false and"),),
        ),
        Build(
            "a job that is to be cancelled is recovered",
            (("jobs_recover", "if mark and string.sub", "if false and string.sub"),),
        ),
        Build(
            "a job that has expired begins",
            (("jobs_reserve", "if limit and tonumber(limit) <= today then", "if false then"),),
        ),
        Build(
            "a job that was moved runs at its old place, too",
            (("jobs_reserve", "and not (voids and voids[at] == 1)", ""),),
        ),
        Build(
            "a snooze counts",
            (
                (
                    "jobs_settle",
                    "elseif outcome == 'z' then",
                    "elseif outcome == 'z' then\n      redis.call('HSET', tries, id, attempt)",
                ),
            ),
        ),
        Build(
            "any delivery writes things down",
            (("jobs_note", "~= ARGV[2] then return 0 end", "== '' then return 0 end"),),
        ),
        Build(
            "cancelling takes running jobs",
            (("parts/control", "redis.call('HEXISTS', KEYS[25 + at - named], id) == 1", "false"),),
        ),
    ),
    "Q10": (
        Build(
            "a counter that counts calls",
            (
                (
                    "parts/push",
                    "redis.call('HINCRBY', stats, 'enqueued', pushed)",
                    "redis.call('HINCRBY', stats, 'enqueued', 1)",
                ),
            ),
        ),
    ),
}
