-- Changes the rules of a queue, and wakes the workers that may have jobs now.
-- KEYS: jobs, idle_workers: zset, stats: hash
-- ARGV: (name, value)
--   name: paused (value 1), rate (jobs/per ms), concurrency, size; value: '' to remove the rule
-- Reply: {1 if another call must wake more workers, paused since (ms) or '', rate or '', concurrency or '', size or ''}
-- Invariants: a repeated pause keeps its start; the last 8 finished pauses are stored; a changed rate keeps its usage,
--   up to one period
-- include: now
-- include: publish
-- include: queue/rules
for at = FIRST, #ARGV, STRIDE do
  local name, value = ARGV[at], ARGV[at + 1]
  local since = name == 'paused' and value == '' and redis.call('HGET', stats, name)
  if since then
    local past = (redis.call('HGET', stats, 'pauses') or '') .. since .. '-' .. math.floor(now / 1000) .. ' '
    local _, many = past:gsub(' ', '')
    redis.call('HSET', stats, 'pauses', many > 8 and past:gsub('^%S+ ', '') or past)
  end
  if value == '' then
    redis.call('HDEL', stats, name)
  elseif name == 'paused' then
    redis.call('HSETNX', stats, name, math.floor(now / 1000))
  else
    redis.call('HSET', stats, name, value)
  end
  if name == 'rate' then redis.call('HDEL', stats, 'turn', value == '' and 'full' or 'turn') end
end
local paused, rate, concurrency, size = read_rules()
if paused == '' then
  -- a score below 0 is an offer (offer.lua): such a worker is awake
  local asleep = redis.call('ZRANGEBYSCORE', idle_workers, 0, '+inf', 'LIMIT', 0, 500)
  if #asleep > 0 then redis.call('ZREM', idle_workers, unpack(asleep)) end
  for _, channel in ipairs(asleep) do publish(channel, jobs) end
end
local more = paused == '' and redis.call('ZCOUNT', idle_workers, 0, '+inf') > 0
return {more and 1 or 0, paused, rate, concurrency, size}
