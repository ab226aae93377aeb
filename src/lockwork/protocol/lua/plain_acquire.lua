-- Takes a lock that is one string key, unless it is taken; called again, it finds its own token.
-- KEYS: key
-- ARGV: token, lease ms
-- Reply: {1, deadline us, now us} granted; {0, ms left or -1, now us, ''} taken; {-1, what is wrong}
-- Invariants: a key with another token stays as it is; ours always has an expiry
-- include: now
local key, token, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
if not redis.call('SET', key, token, 'NX', 'PX', lease) then
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'string' then return {-1, 'shares its key with a ' .. kind .. ', and all its users must agree on the form'} end
  if redis.call('GET', key) ~= token then return {0, redis.call('PTTL', key), now, ''} end
  redis.call('PEXPIRE', key, lease)
end
-- an expiry has whole milliseconds and may count from up to one before `now`
return {1, now + (lease - 1) * 1000, now}
