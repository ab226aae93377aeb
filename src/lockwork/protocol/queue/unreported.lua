-- Lists the ended jobs whose end any worker may report, and subscribes to the next one.
-- KEYS: <queue/unreported>
-- ARGV: channel, most: number
-- Reply: `ID TASK` of each job, the oldest first
-- Invariants: an end that is added after this call sends a message to one subscriber
-- include: now
-- include: queue/unreported
redis.call('ZADD', unreported, tracking.waiting, channel)
redis.call('PEXPIRE', unreported, tracking.forget_ms)
return redis.call('ZRANGEBYSCORE', unreported, 0, math.floor(now / 1000), 'LIMIT', 0, most)
