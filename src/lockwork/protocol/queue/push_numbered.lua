-- Enqueues jobs with a numbered priority. Known ids do not change.
-- KEYS: <queue/push>, <queue/groups>, dead: zset, expiry: zset
-- ARGV: again: flag, limit, (id, record, delay)
--   again: an earlier try may have been applied; limit: ms until the jobs expire (negative: a point in time; '': never)
--   delay: as in queue/push
-- Indexed: stats
-- Reply: as queue/push
-- Invariants: as queue/push; a job without a delay or a key is in its level at once, so that no job of a lower priority
--   starts before it; jobs of a key stay in the order of their due times
-- include: now
-- include: queue/push
-- include: queue/groups
local no_room = check_room_for_new(FIRST, again, dead)
if no_room then return no_room end
local pushed, runnable, sooner, now_ms = 0, 0, false, math.floor(now / 1000)
for at = FIRST, #ARGV, STRIDE do
  local id, record, delay = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local ended = again and has_result(id)
  if not ended and redis.call('HSETNX', jobs, id, record) == 1 then
    mark_if_heavy(record)
    pushed = pushed + 1
    if limit ~= '' then redis.call('ZADD', expiry, moment(limit), id) end
    local _, key = header(record)
    if delay == '0' and not key then
      admit(id, record, now_ms)
      runnable = runnable + 1
    else
      redis.call('ZADD', due, moment(delay), id)
      if redis.call('ZRANK', due, id) == 0 then sooner = true end
    end
  end
end
if pushed > 0 and not queue.numbered then redis.call('HSET', stats, 'numbered', 1) end
-- a retry always writes, because WAIT confirms the last write of the connection
if pushed > 0 or again then redis.call('HINCRBY', stats, 'enqueued', pushed) end
wake(runnable + (sooner and 1 or 0))
return pushed
