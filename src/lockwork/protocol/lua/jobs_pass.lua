-- Ends a worker's sleep without a fetch: its entry goes, or, if it was woken already, another worker is woken instead.
-- KEYS: jobs, idle
-- ARGV: the worker's channel, 1 if it woke up by itself: then it was the one that knew when to look again
-- Reply: 1 when another worker was told, else 0
-- Invariants: a wake-up that its worker cannot use is not lost while another worker sleeps
if redis.call('ZREM', KEYS[2], ARGV[1]) == 1 and ARGV[2] ~= '1' then return 0 end
for _ = 1, 100 do
  local channel = redis.call('ZPOPMIN', KEYS[2])[1]
  if not channel then return 0 end
  if redis.call('PUBLISH', channel, KEYS[1]) > 0 then return 1 end
end
return 0
