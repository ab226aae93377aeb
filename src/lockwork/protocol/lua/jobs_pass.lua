-- Ends a worker's sleep without a fetch: its entry goes, or, if it was woken already, another worker is woken instead. A job that
-- it was offered meanwhile goes back.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, run
-- ARGV: the worker's channel, 1 if it woke up by itself: then it was the one that knew when to look again; fence of the last job
--   that it has
-- Reply: 1 when another worker was told, else 0
-- Invariants: a wake-up that its worker cannot use is not lost while another worker sleeps
-- include: now
-- include: push
local run, known = KEYS[10], tonumber(ARGV[3])
touch('HLEN', 10, 10)
local since = tonumber(redis.call('ZSCORE', idle, ARGV[1]) or nil)
redis.call('ZREM', idle, ARGV[1])
if since and since >= 0 and ARGV[2] ~= '1' then return 0 end
if since and since < 0 then
  if -since <= known and ARGV[2] ~= '1' then return 0 end -- it has the job
  local held = redis.call('HGETALL', run)
  for at = 1, #held, 2 do
    local given = tonumber(string.match(held[at + 1], ' (%d+) ~$') or 0)
    if given > known then
      local record = redis.call('HGET', jobs, held[at])
      redis.call('HDEL', run, held[at])
      count_freed(1)
      if record then redis.call('LPUSH', ready_key(record), held[at]) end -- else it was deleted by hand
    end
  end
end
return wake(1) and 1 or 0
