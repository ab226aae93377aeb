-- Takes a lock that is one string key, unless it is taken; called again, it finds its own token.
-- KEYS: key
-- ARGV: token, lease: number, missing: number
--   lease: ms; missing: ms that a key without an expiry is given (0: it stays without)
-- Reply: {1, deadline us, now us} granted; {0, ms left or -1, now us} taken; {-1, what is wrong}
-- Invariants: a key with another token keeps its value and its expiry; ours always has an expiry
-- include: now
if not redis.call('SET', key, token, 'NX', 'PX', lease) then
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'string' then return {-1, 'shares its key with a ' .. kind .. ', and all its users must agree on the form'} end
  if redis.call('GET', key) ~= token then
    local left = redis.call('PTTL', key)
    if left == -1 and missing > 0 and redis.call('PEXPIRE', key, missing) == 1 then left = missing end
    return {0, left, now}
  end
  redis.call('PEXPIRE', key, lease)
end
-- an expiry has whole milliseconds and may count from up to one before `now`
return {1, now + (lease - 1) * 1000, now}
