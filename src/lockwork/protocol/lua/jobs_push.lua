-- Enqueues jobs; ids that are known already are kept as they are.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, dead
-- ARGV: again (1: an earlier try may have been applied), then for each job: id, record, delay ms (negative: due at that moment)
-- Reply: how many are new; or {waiting, size} when the queue has no room for all of them, and nothing was enqueued
-- Invariants: a job is in one place: a ready list or the due set; idle workers are told
if #ARGV == 4 and ARGV[1] == '0' and ARGV[4] == '0' and string.find(ARGV[3], '^%d,%d+,,;')
    and redis.call('ZCARD', KEYS[6]) == 0 and not redis.call('HGET', KEYS[7], 'size') then
  -- one plain job that may run at once, and nobody to wake: the most frequent call touches what it needs and no more
  local ready = KEYS[2 + (string.match(ARGV[3], '^[012]') or 1)]
  if redis.call('HSETNX', KEYS[1], ARGV[2], ARGV[3]) == 0 then return 0 end
  local pushed = redis.pcall('RPUSH', ready, ARGV[2])
  if type(pushed) == 'table' then
    redis.call('HDEL', KEYS[1], ARGV[2])
    return pushed
  end
  redis.call('HINCRBY', KEYS[7], 'enqueued', 1)
  return 1
end
-- include: now
-- include: push
return refused(2, ARGV[1] == '1', KEYS[10]) or push(2, ARGV[1] == '1')
